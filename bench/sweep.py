#!/usr/bin/env python3
"""A slice of the paper's sweep beside PyTorch eager, both two runs at a time with one thread each.

usage: sweep.py PROGRAM AmesHousing.csv

Ours includes kernels, eigendecompositions and controllers. PyTorch gets its gain matrix for nothing; what SciPy's
solve_discrete_are would take for it is measured apart. Each architecture is measured in turn, so that both sides share
the machine's mood.
"""
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time

STEPS = 400
RATES = [0.01, 0.001]
JOBS = 2
WIDTHS = {"1": [1500], "2": [500] * 3, "3": [250] * 6}
TRAIN, VALIDATION, FEATURES = 357, 155, 79


def worker(arch, seed, barrier, seconds):
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    x, y = torch.rand(TRAIN, FEATURES) - 0.5, torch.randn(TRAIN, 1) * 0.1
    x_val, y_val = torch.rand(VALIDATION, FEATURES) - 0.5, torch.randn(VALIDATION, 1) * 0.1
    gain = torch.eye(TRAIN)
    barrier.wait()
    start = time.perf_counter()
    for lr in RATES:
        for steered in [False, True]:
            sizes = [FEATURES, *WIDTHS[arch], 1]
            layers = []
            for inputs, outputs in zip(sizes, sizes[1:]):
                layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
            net = torch.nn.Sequential(*layers[:-1])
            descent = torch.optim.SGD(net.parameters(), lr=lr)
            decay = torch.optim.lr_scheduler.LambdaLR(descent, lambda k: 1 / (1 + 0.01 * k))
            for step in range(STEPS):
                outputs = net(x)
                label = y - gain @ (outputs.detach() - y) if steered else y
                loss = torch.nn.functional.mse_loss(outputs, label)
                descent.zero_grad()
                loss.backward()
                descent.step()
                decay.step()
                if step % 10 == 0:
                    with torch.no_grad():
                        torch.nn.functional.mse_loss(net(x_val), y_val).item()
    seconds.put(time.perf_counter() - start)


def eager(arch):
    barrier, seconds = multiprocessing.Barrier(JOBS), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=worker, args=(arch, seed, barrier, seconds)) for seed in range(JOBS)]
    for process in processes:
        process.start()
    longest = max(seconds.get() for _ in processes)
    for process in processes:
        process.join()
    return longest


def ours(program, data, arch):
    with tempfile.TemporaryDirectory() as folder:
        rates = ",".join(map(str, RATES))
        subprocess.run(
            [program, "reproduce", "ames", "--data", data, "--archs", arch, "--lrs", rates, "--methods", "gd,cdt",
             "--seeds", str(JOBS), "--steps", str(STEPS), "--jobs", str(JOBS), "--table-only", "--out", folder, "--quiet"],
            check=True)
        results = json.loads((pathlib.Path(folder) / "results.json").read_text())
    return results["timings"], results["machine"]["gemm_gflops"]


def dare_seconds():
    import numpy
    import scipy.linalg

    rng = numpy.random.default_rng(1)
    jacobian = rng.standard_normal((TRAIN, 2 * TRAIN))
    step = jacobian @ jacobian.T
    step *= 0.5 / numpy.linalg.norm(step, 2)
    start = time.perf_counter()
    scipy.linalg.solve_discrete_are(numpy.eye(TRAIN) - step, step, numpy.eye(TRAIN), 0.1 * numpy.eye(TRAIN))
    return time.perf_counter() - start


def main():
    program, data = sys.argv[1:]
    print(f"A slice of the paper's sweep: gd and cdt, {len(RATES)} rates, {JOBS} seeds, {STEPS} steps, {JOBS} at a time")
    total_ours = total_eager = floor = paper = 0
    for arch in WIDTHS:
        timings, gemm = ours(program, data, arch)
        beside = eager(arch)
        print(f"  architecture {arch}: ours {timings['wall_seconds']:.1f} s, PyTorch eager {beside:.1f} s; "
              f"{100 * timings['share_of_gemm_rate']:.0f} % of the measured {gemm:.0f} GFLOP/s")
        total_ours += timings["wall_seconds"]
        total_eager += beside
        floor += timings["floor_seconds"]
        paper += timings["wall_seconds"] / timings["runs"] * 80 * 1000 / STEPS
    share = floor / total_ours
    print(f"  of the floor that operations and the GEMM rate beside them set: {100 * share:.0f} % "
          f"(bar 85: {'met' if share >= 0.85 else 'NOT MET'})")
    print(f"  PyTorch eager / ours: {total_eager / total_ours:.2f} (bar 1: {'met' if total_eager >= total_ours else 'NOT MET'})")
    print(f"  the paper's 240 runs at this speed, none diverging early: {paper / 60:.1f} min "
          f"(bar 17: {'met' if paper <= 17 * 60 else 'NOT MET'})")
    print(f"  SciPy's DARE, once for each of its 120 controllers: {dare_seconds():.2f} s each, not counted above")


if __name__ == "__main__":
    main()
