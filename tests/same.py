#!/usr/bin/env python3
"""Do two builds give the same bits? What `./dev same` runs.

usage: same.py keep|compare PROGRAM FOLDER [--only NAME]

keep runs some sixty small jobs and keeps what they wrote in FOLDER/before. compare runs them again, with a build of other sources, into
FOLDER/now, and says which files differ: models, histories, predictions and spectra byte by byte, JSON value by value but for seconds and
what follows from them. Jobs that read (predict, report, resume) read the folders that were kept, so these stay readable as well. Python's
jobs run where PYTHONPATH has a module.
"""
import argparse
import csv
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

FIT = "--goal fit --hidden 16,16 --rows 120 --steps 12"
CLASSES = "--hidden 16,16 --rows 150"
SMALL = "--hidden 8 --folds 2 --ensemble 2"
# Runs that train, in folders of their names.
RUNS = {
    "gd": f"houses.csv --target price {FIT} --method gd --lr 0.05",
    "gd-matched": f"houses.csv --target price {FIT} --method gd-matched --lr 0.05 --p 0.3 --q 2",
    "momentum": f"houses.csv --target price {FIT} --method momentum --lr 0.01",
    "adam": f"houses.csv --target price {FIT} --method adam --lr 0.01 --batch 32 --reshuffle",
    "lbfgs": f"houses.csv --target price {FIT} --method lbfgs",
    "mae": f"houses.csv --target price {FIT} --method adam --loss mae",
    "cdt": f"houses.csv --target price {FIT} --method cdt --lr 0.2",
    "cdt-double": f"houses.csv --target price {FIT} --method cdt --lr 0.2 --dtype float64 --activation tanh --loss sse",
    "cdt-relinearized": f"houses.csv --target price {FIT} --method cdt --lr 0.2 --relinearize every:4 --schedule inverse --decay 0.05",
    "cdt-kc": f"houses.csv --target price {FIT} --method cdt --lr 0.2 --relinearize kc --activation gelu --linearization-error",
    "cdt-error": f"houses.csv --target price {FIT} --method cdt --lr 0.2 --relinearize error:0.1",
    "cdt-shape": f"houses.csv --target price {FIT} --method cdt --lr 0.2 --shape 0.1",
    "cdt-weights": f"weighted.csv --target y --sample-weights w {FIT} --method cdt --lr 0.2",
    "cdt-outputs": f"weighted.csv --target y,z --drop w --output-weights 1,0.2 {FIT} --method cdt --lr 0.2",
    "cdt-classes": f"classes.csv --target kind --goal fit --loss cross-entropy --method cdt --lr 0.2 --steps 12 {CLASSES}",
    "guarded": f"houses.csv --target price {FIT}",
    "guarded-rate": f"houses.csv --target price {FIT} --lr 3",
    "guarded-batches": f"houses.csv --target price {FIT} --batch 25",
    "guarded-drawn": f"houses.csv --target price {FIT} --batch 25 --reshuffle --lr 1",
    "guarded-decay": f"houses.csv --target price {FIT} --weight-decay 0.01",
    "guarded-shape": f"houses.csv --target price {FIT} --shape 0.2",
    "guarded-weights": f"weighted.csv --target y --sample-weights w {FIT}",
    "guarded-weights-rate": f"weighted.csv --target y --sample-weights w {FIT} --lr 1",
    "guarded-outputs": f"weighted.csv --target y,z --drop w --output-weights 1,0.2 {FIT}",
    "guarded-classes": f"classes.csv --target kind --goal fit --loss cross-entropy --steps 12 {CLASSES}",
    "guarded-two": f"two.csv --target kind --goal fit --loss cross-entropy --steps 12 {CLASSES}",
    "guarded-primal": f"houses.csv --target price {FIT} --form primal --hidden 4",
    "guarded-free": f"houses.csv --target price {FIT} --form free",
    "guarded-sketch": f"houses.csv --target price {FIT} --form sketch",
    "guarded-batch": f"houses.csv --target price {FIT} --form batch --batch 40",
    "guarded-workers": f"houses.csv --target price {FIT} --form free --workers 2",
    "tuned": "houses.csv --target price --goal fit --hidden 16,16 --rows 120 --method cdt --tune",
    "path": f"houses.csv --target price --goal fit --method path --hidden 16 --rows 120 --steps 8",
    "predict": f"houses.csv --target price --rows 200 {SMALL}",
    "predict-importance": f"houses.csv --target price --rows 150 {SMALL} --importance --test-fraction 0.2",
    "predict-adam": f"houses.csv --target price --rows 150 {SMALL} --method adam --steps 20",
    "predict-classes": f"classes.csv --target kind --rows 200 {SMALL}",
    "predict-balanced": f"classes.csv --target kind --rows 200 {SMALL} --class-weights balanced",
    "predict-two": f"two.csv --target kind --rows 200 {SMALL}",
    "predict-weights": f"weighted.csv --target y --sample-weights w --rows 200 {SMALL}",
    "predict-groups": f"houses.csv --target price --group district --rows 200 {SMALL} --no-refit",
    "predict-time": "houses.csv --target price --time year --rows 200 --hidden 8 --ensemble 2",
    "predict-batch": f"houses.csv --target price --form batch --batch 50 {SMALL}",
    "predict-several": f"weighted.csv --target y,z --drop w --rows 200 {SMALL} --output-weights 1,0.2",
    "pictures": "shapes --arch cnn --hidden 4,4 --size 8 --steps 5",
    "pictures-cdt": "shapes --arch cnn --hidden 4,4 --size 8 --steps 5 --method cdt --lr 0.2",
}
# Other commands; each writes into its own folder, {out}.
MADE = {
    "analyze": "analyze houses.csv --target price --rows 100 --hidden 16,16 --trial-steps 5 --json {out}/a.json",
    "analyze-rate": "analyze houses.csv --target price --rows 100 --hidden 16,16 --lr 0.3 --p 0.5 --forecast --json {out}/a.json",
    "analyze-large": "analyze houses.csv --target price --hidden 16 --memory 1 --json {out}/a.json",
    "analyze-classes": "analyze classes.csv --target kind --rows 90 --hidden 16 --loss cross-entropy --json {out}/a.json",
    "compare": "compare houses.csv --target price --rows 80 --archs 8x8 --lrs 1,0.1 --seeds 2 --steps 8 --out {out}/c",
    "design": "design --kernel {jobs}/theta/theta.npy --lr 0.1 --p 0.2 --out {out}/gain.npy --steering {out}/steering.npy --json {out}/d.json",
}
# What reads the runs that were kept.
READ = {
    "predict": "predict {kept}/runs/predict houses.csv --interval 0.9 --out {out}/p.csv --json {out}/p.json",
    "predict-classes": "predict {kept}/runs/predict-classes classes.csv --out {out}/p.csv --json {out}/p.json",
    "predict-fit": "predict {kept}/runs/guarded houses.csv --out {out}/p.csv --json {out}/p.json",
    "predict-pictures": "predict {kept}/runs/pictures shapes --out {out}/p.csv --json {out}/p.json",
    "report": "report {kept}/runs/guarded --out {out}/report.html",
    "report-predict": "report {kept}/runs/predict --out {out}/report.html",
    "report-classes": "report {kept}/runs/predict-classes --out {out}/report.html",
    "report-several": "report {kept}/runs/gd {kept}/runs/cdt {kept}/runs/guarded --out {out}/report.html",
    "report-sweep": "report {kept}/made/compare/c --out {out}/report.html",
    "verify": "verify {kept}/runs/guarded",
    "verify-sweep": "verify {kept}/made/compare/c",
}
PYTHON = '''
import sys, torch, cdt
torch.manual_seed(0)
torch.set_num_threads(1)
show = lambda *v: print(*[float(x).hex() for x in v])
model = torch.nn.Sequential(torch.nn.Linear(5, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)).double()
start = {k: v.clone() for k, v in model.state_dict().items()}
x, y = torch.randn(30, 5).double(), torch.randn(30, 1).double()
theta = cdt.ntk(model, x)
show(theta.sum(), theta.norm())
c = cdt.Controller(model, x, y, lr=0.1, loss="mse", p=0.1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    opt.zero_grad()
    out = model(x)
    loss = torch.nn.functional.mse_loss(out, c.augment(out.detach()))
    loss.backward()
    opt.step()
    show(loss)
model.load_state_dict(start)
guarded = cdt.optim.Guarded(model)
for _ in range(5):
    show(guarded.step(x, y))
model.load_state_dict(start)
for _ in range(3):
    show(cdt.optim.Guarded(model).step(lambda: (model(x) - y).reshape(-1)))
model.load_state_dict(start)
result = cdt.fit(model, x, y, steps=8)
show(*[p.sum() for p in model.parameters()])
'''
# Values that are other ones each time, and checksums of files that hold them.
VOLATILE = re.compile(r"second|checksum|gemm|peak_bytes|^revision$|^run$|^checkpoint.safetensors$|^history.csv$|^results.csv$")


def make_tables(folder, program):
    subprocess.run([program, "data", "make", "houses.csv", "--rows", "300", "--quiet"], cwd=folder, check=True)
    subprocess.run([program, "data", "make-pictures", "shapes", "--rows", "24", "--size", "8", "--quiet"], cwd=folder, check=True)
    # Whole numbers alone, so that every Python draws the same.
    state = 12345
    def draw(n):
        nonlocal state
        state = (1103515245 * state + 12345) % 2**31
        return (state >> 8) % n
    def table(name, header, row):
        (folder / name).write_text("\n".join([header] + [row(i) for i in range(260)]) + "\n")
    def numbers(i):
        a, b, c = draw(1000), draw(1000), draw(1000)
        return a, b, c
    def weighted(i):
        a, b, c = numbers(i)
        return f"{a},{b},{c},{1 + draw(9)},{2 * a - 3 * b + a * c // 1000 + draw(50)},{abs(a - c)}"
    def classes(i):
        a, b, c = numbers(i)
        return f"{a},{b},{c},{'xyz'[(a > 500) + (a * b > 400000)] if draw(10) else 'x'}"
    def two(i):
        a, b, c = numbers(i)
        return f"{a},{b},{c},{'yes' if (a > b) != (draw(8) == 0) else 'no'}"
    table("weighted.csv", "a,b,c,w,y,z", weighted)
    table("classes.csv", "a,b,c,kind", classes)
    table("two.csv", "a,b,c,kind", two)


def strip(value):
    """A JSON value without what is another one each time."""
    if isinstance(value, dict):
        return {k: strip(v) for k, v in value.items() if not VOLATILE.search(k)}
    return [strip(v) for v in value] if isinstance(value, list) else value


def content(path):
    """What must not change of a file, as text or a checksum."""
    data = path.read_bytes()
    if path.suffix == ".json":
        return re.sub(r"[^\"]*/(before|now)/", "", json.dumps(strip(json.loads(data)), indent=1, sort_keys=True))
    if path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(data.decode())))
        keep = [i for i, name in enumerate(rows[0]) if not VOLATILE.search(name)] if rows else []
        return "\n".join(",".join(row[i] for i in keep if i < len(row)) for row in rows)
    if path.suffix in (".txt", ".html", ".md"):
        return data.decode()
    return hashlib.sha256(data).hexdigest()


def files_of(folder):
    """Files of results by name; a model is written with its architecture, a checkpoint and a log with seconds."""
    skip = {".cdt-lock", "checkpoint.safetensors"}
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name not in skip and not (p.name == "report.html" and "read" not in p.parts)}


def run_all(program, folder, kept, only):
    """Runs every job into `folder`; True if all ended well."""
    jobs = [("theta", None)] + [("runs/" + n, f"train {a} --threads 1 --quiet --out {{out}}") for n, a in RUNS.items()]
    jobs += [("made/" + n, a) for n, a in MADE.items()] + [("read/" + n, a) for n, a in READ.items()]
    good = True
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    for number, (name, arguments) in enumerate(jobs):
        if only and only not in name and name != "theta":
            continue
        if sys.stderr.isatty():
            print(f"\r{number + 1} of {len(jobs)}: {name:40}", end="", file=sys.stderr, flush=True)
        out = folder / name
        out.mkdir(parents=True)
        if name == "theta":
            import numpy
            basis = numpy.cos(numpy.arange(400).reshape(20, 20) ** 2 * 0.7)
            numpy.save(out / "theta.npy", basis @ basis.T / 20)
            continue
        if name.startswith("runs/"):
            out.rmdir()
        words = [w.format(out=out, kept=kept, jobs=folder) for w in arguments.split()]
        done = subprocess.run([program] + words, cwd=folder.parent / "tables", capture_output=True, text=True, env=environment)
        out.mkdir(exist_ok=True)
        if name.startswith("read/verify"):
            (out / "verify.txt").write_text(done.stdout.replace(str(kept), "KEPT"))
        if done.returncode != 0:
            good = False
            (out / "failed.txt").write_text(f"{done.returncode} {done.stderr}")
            print(f"\n{name}: exit {done.returncode}\n  {' '.join(words)}\n  {done.stderr.strip()}", file=sys.stderr)
    if not only or only == "python":
        done = subprocess.run([sys.executable, "-c", PYTHON], capture_output=True, text=True, env=environment)
        (folder / "python").mkdir()
        (folder / "python" / "values.txt").write_text(done.stdout if done.returncode == 0 else "none: " + done.stderr[-300:])
        good = good and done.returncode == 0
        if done.returncode != 0:
            print(f"\nPython: {done.stderr}", file=sys.stderr)
    return good


def first_difference(a, b):
    for one, other in zip(a.splitlines(), b.splitlines()):
        if one != other:
            at = next((i for i, (p, q) in enumerate(zip(one, other)) if p != q), min(len(one), len(other)))
            from_ = max(0, at - 60)
            return f"{one[from_:at + 60].strip()}  →  {other[from_:at + 60].strip()}"
    return "another length"


def compare(before, now, only):
    """Prints what differs; how many files do."""
    a, b = ({name: path for name, path in files_of(folder).items() if not only or only in name} for folder in (before, now))
    differing = 0
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            print(f"{name}: only {'before' if name in a else 'now'}")
        else:
            one, other = content(a[name]), content(b[name])
            if one == other:
                continue
            print(f"{name}: {first_difference(one, other)}")
        differing += 1
    print(f"{len(a.keys() | b.keys())} files, {differing} differ")
    return differing


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=["keep", "compare"])
    parser.add_argument("program", type=lambda p: str(pathlib.Path(p).resolve()))
    parser.add_argument("folder", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--only")
    options = parser.parse_args()
    before, now = options.folder / "before", options.folder / "now"
    if options.what == "keep":
        shutil.rmtree(options.folder, ignore_errors=True)
        (options.folder / "tables").mkdir(parents=True)
        make_tables(options.folder / "tables", options.program)
        sys.exit(0 if run_all(options.program, before, before, options.only) else 1)
    if not before.is_dir():
        parser.exit(2, f"{before}: nothing was kept there; ./dev same keep, with the sources to compare with\n")
    shutil.rmtree(now, ignore_errors=True)
    good = run_all(options.program, now, before, options.only)
    sys.exit(0 if compare(before, now, options.only) == 0 and good else 1)


if __name__ == "__main__":
    main()
