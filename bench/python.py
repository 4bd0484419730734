"""cdt.ntk beside the same call from C++ and beside a Jacobian of torch.autograd.functional. usage: bench/python.py PROGRAM [THREADS]

PROGRAM is cdt_bench_kernel. Architecture 2 of the paper, 79-500-500-500-1, 358 samples. The two are measured by turns, and the best of each counts; processor
time is the fairer one where others use the machine.
"""
import subprocess
import sys
import time

import torch

import cdt

ROUNDS, REPETITIONS = 8, 12


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


def main(program, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
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


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
