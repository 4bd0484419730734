#!/usr/bin/env python3
"""Seconds a point of the decay path against the number of rows, by form: what `./dev bench-scale` prints.

usage: scale.py PROGRAM [--rows 1000,3000,10000,…] [--forms sketch=128,128;free=32,32;primal=16,16] [--points 3] [--threads 1]
       [--plot FILE.svg]

Tables are generated houses, a form comes with the hidden layers of its network. A point is linearization, solution, check, and
whatever steps are taken back. Seconds are those of the processor (user and system, of all threads), less what the same run takes
without a point, so that other work on the machine hardly counts; memory is the largest of the process. Seconds a step are those
over all steps that were solved, taken back or not. The last line of a form has the slopes of seconds against rows on log-log scales,
from 10 000 rows on, where the kernel of a sketch no longer counts.
"""
import argparse
import csv
import math
import os
import pathlib
import subprocess
import tempfile


def run(program, arguments):
    """Processor seconds and peak memory (MB) of a run."""
    child = subprocess.Popen([program] + arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(arguments)}\n{error}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def slope(rows, seconds):
    """Least squares in logarithms."""
    x = [math.log(value) for value in rows]
    y = [math.log(value) for value in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


SLOPE_FROM = 10000


def plot(found, file):
    """Seconds against rows of each form, {name: {rows: seconds}}, as an SVG file: log-log, with a line of slope 1."""
    width, height, left, bottom, top, right = 560, 400, 60, 48, 20, 150
    rows = sorted({r for points in found.values() for r in points})
    seconds = [s for points in found.values() for s in points.values()]
    low_x, high_x = math.log10(rows[0]), math.log10(rows[-1])
    low_y, high_y = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))
    x = lambda value: left + (math.log10(value) - low_x) / (high_x - low_x) * (width - left - right)
    y = lambda value: height - bottom - (math.log10(value) - low_y) / (high_y - low_y) * (height - bottom - top)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for power in range(math.ceil(low_x), math.floor(high_x) + 1):
        at = x(10 ** power)
        lines.append(f'<path d="M{at:.1f} {top}V{height - bottom}" stroke="#ddd"/>'
                     f'<text x="{at:.1f}" y="{height - bottom + 18}" text-anchor="middle">{10 ** power:,}</text>'.replace(",", "\u2009"))
    for power in range(low_y, high_y + 1):
        at = y(10 ** power)
        lines.append(f'<path d="M{left} {at:.1f}H{width - right}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{10 ** power:g}</text>')
    lines.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle">rows</text>'
                 f'<text transform="translate(16 {(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">'
                 'processor seconds a point</text>')
    # Of slope 1, through the lower left corner of what there is.
    end = min(high_x, low_x + high_y - low_y)
    lines.append(f'<path d="M{x(rows[0]):.1f} {y(10 ** low_y):.1f}L{x(10 ** end):.1f} {y(10 ** (low_y + end - low_x)):.1f}" '
                 'stroke="#999" stroke-dasharray="4 4"/>')
    for (name, points), colour in zip(found.items(), ("#1f5fa8", "#c2571a", "#2e7d32", "#6a3d9a")):
        path = "L".join(f"{x(r):.1f} {y(s):.1f}" for r, s in points.items())
        lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x(r):.1f}" cy="{y(s):.1f}" r="3.5" fill="{colour}"/>' for r, s in points.items()]
        last = list(points)[-1]
        lines.append(f'<text x="{x(last) + 8:.1f}" y="{y(points[last]) + 4:.1f}" fill="{colour}">{name}</text>')
    pathlib.Path(file).write_text("\n".join(lines + ["</svg>", ""]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rows", default="1000,3000,10000,30000,100000,300000,1000000")
    parser.add_argument("--forms", default="sketch=128,128;free=32,32;primal=16,16")
    parser.add_argument("--points", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", help="where to draw the figure")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tables = {}
        for rows in map(int, options.rows.split(",")):
            tables[rows] = folder / f"houses{rows}.csv"
            subprocess.run([options.program, "data", "make", tables[rows], "--rows", str(rows), "--quiet"], check=True)
        forms = {}
        for form, hidden in (each.split("=") for each in options.forms.split(";")):
            print(f"\n{form}, hidden layers of {hidden}\n      rows  seconds a point  a step  taken back  memory MB", flush=True)
            found, steps = forms.setdefault(f"{form}, {hidden}", {}), {}
            for rows, table in tables.items():
                common = ["train", str(table), "--target", "price", "--goal", "predict", "--form", form, "--hidden", hidden,
                          "--ensemble", "1", "--no-refit", "--no-intervals", "--quiet", "--overwrite",
                          "--threads", str(options.threads), "--out", str(folder / "run")]
                before, _ = run(options.program, common + ["--steps", "0"])
                after, memory = run(options.program, common + ["--steps", str(options.points)])
                with open(folder / "run" / "history.csv") as file:
                    history = list(csv.DictReader(file))
                rejected = sum(int(row["rejected"]) for row in history)
                found[rows] = max(1e-3, (after - before) / options.points)  # less cannot be told from nothing
                steps[rows] = found[rows] * options.points / (options.points + rejected)
                print(f"{rows:10}  {found[rows]:15.3g}  {steps[rows]:6.3g}  {rejected:10}  {memory:9.0f}", flush=True)
                if options.plot and len(found) > 1:
                    plot(forms, options.plot)
            many = [rows for rows in found if rows >= SLOPE_FROM]
            if len(many) > 1:
                slopes = [slope(many, [seconds[rows] for rows in many]) for seconds in (found, steps)]
                print("slopes: {:.2f} of seconds a point, {:.2f} a step".format(*slopes), flush=True)


main()
