"""The module beside the same work in C++. usage: bench/python.py BUILD [THREADS]

BUILD holds cdt_bench_kernel and cdt. cdt.ntk beside the same call from C++ and beside a Jacobian of torch.autograd.functional: architecture 2 of the paper,
79-500-500-500-1, 358 samples. CDTRegressor().fit beside cdt train on the same table: beside its reading and learning alone, though a fit also makes intervals
and says what to expect, which the program does while it writes, and beside the whole command. All are measured by turns; of kernels the best of each counts,
of fits the median. Processor time is the fairer one where others use the machine.
"""
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

import cdt

ROUNDS, REPETITIONS = 8, 12
FITS, ROWS = 5, 600


def best(work, repetitions):
    work()
    wall = used = float("inf")
    for _ in range(repetitions):
        start, ticks = time.perf_counter(), time.process_time()
        work()
        used = min(used, time.process_time() - ticks)
        wall = min(wall, time.perf_counter() - start)
    return wall, used


def by_jacobian(model, x):
    """What people write: the Jacobian of the outputs, then its Gram matrix."""
    try:
        from torch.func import functional_call
    except ImportError:
        from torch.nn.utils.stateless import functional_call
    names, values = zip(*model.named_parameters())
    parts = torch.autograd.functional.jacobian(lambda *p: functional_call(model, dict(zip(names, p)), (x,))[:, 0], values, vectorize=True)
    return sum(part.reshape(len(x), -1) @ part.reshape(len(x), -1).T for part in parts)


def kernels(program, threads):
    layers = []
    for width, following in zip((79, 500, 500, 500), (500, 500, 500, 1)):
        layers += [torch.nn.Linear(width, following), torch.nn.ReLU()]
    model, x = torch.nn.Sequential(*layers[:-1]), torch.rand(358, 79) - 0.5
    times = {"C++": [], "Python": []}
    for _ in range(ROUNDS):
        done = subprocess.run([program, str(REPETITIONS), str(threads)], capture_output=True, text=True, check=True)
        times["C++"].append(tuple(float(number) for number in done.stdout.split()))
        times["Python"].append(best(lambda: cdt.ntk(model, x), REPETITIONS))
    found = {name: [min(column) for column in zip(*rows)] for name, rows in times.items()}
    jacobian = best(lambda: by_jacobian(model, x), 2)
    theta, expected = cdt.ntk(model, x), by_jacobian(model, x).double()
    print(f"kernel of 79-500-500-500-1, 358 samples, {threads} threads, PyTorch {torch.__version__}; relative difference {((theta - expected).norm() / expected.norm()).item():.1e}")
    for name, (wall, used) in [*found.items(), ("torch.autograd.functional", jacobian)]:
        print(f"  {name:26s} {1e3 * wall:9.1f} ms   processor {1e3 * used:9.1f} ms")
    for at, kind in enumerate(("wall", "processor")):
        print(f"  {kind}: Python / C++ {found['Python'][at] / found['C++'][at]:.3f} (at most 1.1), jacobian / cdt.ntk {jacobian[at] / found['Python'][at]:.1f} (at least 4)")


def by_program(program, table, threads, folder):
    """Wall seconds of reading and learning, as the run says, and of the whole program; its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, "train", table, "--target", "y", "--seed", "1", "--threads", str(threads), "--goal", "predict", "--quiet", "--overwrite", "--out", folder]
    start = time.perf_counter()
    subprocess.run(command, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads((pathlib.Path(folder) / "run.json").read_text())["seconds"]
    return said["load"] + said["training"], wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def estimators(program, threads):
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{j}": rng.normal(size=ROWS) for j in range(8)} | {"kind": rng.choice(list("abc"), ROWS)})
    frame["y"] = np.sin(frame.x0) * frame.x1 + frame.x2 * (frame.kind == "a") + 0.1 * rng.normal(size=ROWS)
    times = {"cdt train": [], "CDTRegressor": []}
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/table.csv"
        frame.to_csv(table, index=False)
        frame = pd.read_csv(table)
        for _ in range(FITS):
            times["cdt train"].append(by_program(program, table, threads, f"{folder}/run"))
            start, ticks = time.perf_counter(), time.process_time()
            model = cdt.CDTRegressor(random_state=1, n_jobs=threads).fit(frame.drop(columns="y"), frame.y)
            wall = time.perf_counter() - start
            times["CDTRegressor"].append((wall, wall, time.process_time() - ticks))
        said = pd.read_csv(f"{folder}/run/predictions.csv")
    found = {name: [float(np.median(column)) for column in zip(*rows)] for name, rows in times.items()}
    print(f"\nlearning {ROWS} rows with defaults, {threads} threads; held-out losses end at {model.held_out_loss_[-1]:.4g}, {len(said)} rows predicted")
    for name, (learning, wall, used) in found.items():
        print(f"  {name:26s} {learning:9.2f} s to learn, {wall:9.2f} s in all    processor {used:9.2f} s")
    ratios = [mine / theirs for mine, theirs in zip(found["CDTRegressor"], found["cdt train"])]
    print("  Python / program: wall {:.3f} (of its learning alone), {:.3f} (in all), processor {:.3f} (at most 1.1)".format(*ratios))


def main(build, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    kernels(f"{build}/cdt_bench_kernel", threads)
    estimators(f"{build}/cdt", threads)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
