#!/usr/bin/env python3
"""Seconds a point of the decay path against the number of rows, by form: what `./dev bench-scale` prints.

usage: scale.py PROGRAM [--rows 1000,3000,10000,…] [--forms sketch,primal,free] [--hidden 128,128] [--points 3] [--threads 1]

Tables are generated houses. A point is linearization, solution, check, and whatever steps are taken back. Seconds are those of the
processor (user and system, of all threads), less what the same run takes without a point, so that other work on the machine hardly
counts; memory is the largest of the process. The last line of a form has the slope of seconds against rows on log-log scales.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rows", default="1000,3000,10000,30000,100000,300000,1000000")
    parser.add_argument("--forms", default="sketch,free,primal")
    parser.add_argument("--hidden", default="128,128")
    parser.add_argument("--primal-hidden", default="16,16", help="of the form primal, which is for few parameters")
    parser.add_argument("--points", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tables = {}
        for rows in map(int, options.rows.split(",")):
            tables[rows] = folder / f"houses{rows}.csv"
            subprocess.run([options.program, "data", "make", tables[rows], "--rows", str(rows), "--quiet"], check=True)
        for form in options.forms.split(","):
            hidden = options.primal_hidden if form == "primal" else options.hidden
            print(f"\n{form}, hidden layers of {hidden}\n      rows  seconds a point  taken back  memory MB", flush=True)
            found = {}
            for rows, table in tables.items():
                common = ["train", str(table), "--target", "price", "--goal", "predict", "--form", form, "--hidden", hidden,
                          "--ensemble", "1", "--no-refit", "--no-intervals", "--quiet", "--overwrite",
                          "--threads", str(options.threads), "--out", str(folder / "run")]
                before, _ = run(options.program, common + ["--steps", "0"])
                after, memory = run(options.program, common + ["--steps", str(options.points)])
                with open(folder / "run" / "history.csv") as file:
                    history = list(csv.DictReader(file))
                rejected = sum(int(row["rejected"]) for row in history)
                found[rows] = (after - before) / options.points
                print(f"{rows:10}  {found[rows]:15.3g}  {rejected:10}  {memory:9.0f}", flush=True)
            if len(found) > 1:
                print(f"slope {slope(found.keys(), found.values()):.2f}", flush=True)


main()
