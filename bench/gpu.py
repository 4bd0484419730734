"""Kernels and training on a GPU beside their peers in PyTorch, all in one run. usage: bench/gpu.py BUILD [AmesHousing.csv]

BUILD holds cdt_bench_kernel and cdt_bench_gpu. Times are the best of repeated calls on the same shapes; errors are relative, against float64. A peer that runs out
of memory is said to. Prints rows for bench/RESULTS.md, bars and whether they are met.
"""
import json
import subprocess
import sys
import time

import torch
from torch import nn

REPETITIONS = 30
GIB = 2.0**30


def dense(*widths):
    layers = []
    for width, following in zip(widths, widths[1:]):
        layers += [nn.Linear(width, following), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def tutorial_cnn():
    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Linear(21632, 10))


def alexnet():
    features = []
    for inputs, outputs, kernel, stride, padding, pooled in ((3, 64, 11, 4, 2, True), (64, 192, 5, 1, 2, True), (192, 384, 3, 1, 1, False), (384, 256, 3, 1, 1, False), (256, 256, 3, 1, 1, True)):
        features += [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU()] + ([nn.MaxPool2d(3, 2)] if pooled else [])
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Linear(256 * 36, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 2))


def resnet18():
    from torchvision.models import resnet18 as network

    return network(num_classes=2).eval()


# name: title, peer's network, samples, bar in ms, bar against torch.func, bar of memory in GiB
NETWORKS = {
    "mlp3": ("MLP 79-500³-1, 358 samples", lambda: dense(79, 500, 500, 500, 1), (358, 79), 1.0, 5, None),
    "mlp1": ("MLP 79-1500-1, 358 samples", lambda: dense(79, 1500, 1), (358, 79), 0.6, None, None),
    "wide": ("MLP 784-1024²-10, 1000 samples", lambda: dense(784, 1024, 1024, 10), (1000, 784), 14, None, None),
    "cnn": ("CNN of PyTorch's tutorial, 100 × 3 × 32 × 32, 10 outputs", tutorial_cnn, (100, 3, 32, 32), 6, 3, None),
    "alexnet": ("AlexNet, 77 × 3 × 96 × 96, 2 outputs", alexnet, (77, 3, 96, 96), 10, 20, 2),
    "resnet18": ("ResNet-18, 77 × 3 × 96 × 96, 2 outputs", resnet18, (77, 3, 96, 96), None, None, None),
}


def best_of(work, repetitions):
    """Seconds of a call, after three that warm up."""
    best = float("inf")
    for k in range(repetitions + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        if k >= 3:
            best = min(best, time.perf_counter() - start)
    return best


def torch_func_kernel(model, x):
    """The kernel as PyTorch's tutorial makes it: Jacobians of each sample, contracted layer by layer."""
    from torch.func import functional_call, jacrev, vmap

    names = [name for name, _ in model.named_parameters()]
    values = [value.detach() for _, value in model.named_parameters()]

    def single(parameters, sample):
        return functional_call(model, dict(zip(names, parameters)), (sample.unsqueeze(0),)).squeeze(0)

    def kernel():
        parts = [j.flatten(2) for j in vmap(jacrev(single), (None, 0))(values, x)]
        return sum(torch.einsum("Naf,Mbf->NaMb", part, part) for part in parts)

    return kernel


def repetitions_of(name, peer=False):
    """Fewer of what takes long."""
    return 1 if peer and name == "wide" else 8 if name == "resnet18" else REPETITIONS


def peer(name):
    _, make, shape, *_ = NETWORKS[name]
    model, x = make().cuda(), torch.randn(*shape, device="cuda") * 0.3
    torch.cuda.reset_peak_memory_stats()
    try:
        seconds = best_of(torch_func_kernel(model, x), repetitions_of(name, peer=True))
        return seconds, torch.cuda.max_memory_allocated() / GIB
    except torch.OutOfMemoryError:
        return None, None
    finally:
        del model, x
        torch.cuda.empty_cache()


def judge(value, bar, most=True):
    if bar is None:
        return "–"
    return f"{'≤' if most else '≥'} {bar:g}: {'met' if (value <= bar if most else value >= bar) else 'NOT MET'}"


def kernels(build):
    print("\n| kernel | ours | bar | error | memory | `torch.func` | its memory | ratio | bar |\n|---|---|---|---|---|---|---|---|---|")
    by_turns = []
    for name, (title, _, _, bar, ratio_bar, memory_bar) in NETWORKS.items():
        done = subprocess.run([f"{build}/cdt_bench_kernel", str(repetitions_of(name)), "8", name, "cuda"], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"| {title} | failed: {done.stderr.strip()[-300:]} |")
            continue
        wall, _, error, peak, *turns = (float(number) for number in done.stdout.split())
        by_turns.append((title, turns))
        theirs, their_memory = peer(name)
        memory = f"{peak / GIB:.2f} GiB" + (f" ({judge(peak / GIB, memory_bar)})" if memory_bar else "")
        if theirs is None:
            beside = "out of memory | – | – | –"
        else:
            beside = f"{1e3 * theirs:.2f} ms | {their_memory:.2f} GiB | {theirs / wall:.1f} | {judge(theirs / wall, ratio_bar, most=False)}"
        print(f"| {title} | {1e3 * wall:.3f} ms | {judge(1e3 * wall, bar)} | {error:.1e} | {memory} | {beside} |", flush=True)
    print("\n| by turns | replayed: layers together | one by one | asked for: layers together | one by one |\n|---|---|---|---|---|")
    for title, turns in by_turns:
        print(f"| {title} | {' | '.join(f'{1e3 * seconds:.3f} ms' for seconds in turns)} |")


def eager_step(make, shape, outputs):
    """Seconds of a step of plain gradient descent in PyTorch, losses left on the device."""
    model, x, y = make().cuda(), torch.randn(*shape, device="cuda"), torch.randn(shape[0], outputs, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def steps():
        for _ in range(50):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()

    return best_of(steps, 10) / 50


def training(build, data):
    command = [f"{build}/cdt_bench_gpu", "--device", "cuda"] + (["--data", data] if data else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"\ntraining failed: {done.stderr.strip()[-1000:]}")
        return
    found = json.loads(done.stdout)
    print(f"\nTraining: revision {found['revision'][:7]}, LibTorch {found['libtorch']}")
    small, large, quick = (next(found[key] for key in found if key.startswith(name)) for name in ("mlp", "alexnet", "TF32"))
    eager = {"MLP": eager_step(NETWORKS["mlp3"][1], (358, 79), 1), "AlexNet": eager_step(alexnet, (77, 3, 96, 96), 2)}
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = True
    eager["AlexNet, TF32"] = eager_step(alexnet, (77, 3, 96, 96), 2)
    print("\n| step | default | looked at each step | stride | recorded | PyTorch eager | bar |\n|---|---|---|---|---|---|---|")
    for title, rows in (("MLP", small), ("AlexNet", large), ("AlexNet, TF32", quick)):
        for method in ("gd", "cdt"):
            row = rows[method]
            bar = judge(row["default_us"], 120) if title == "MLP" else judge(eager[title] * 1e6 / row["default_us"], 1.5, most=False)
            cells = " | ".join(f"{row[key]:.0f} µs" for key in ("default_us", "eager_us", "stride_us", "recorded_us"))
            print(f"| {title}, {method} | {cells} | {1e6 * eager[title]:.0f} µs | {bar} |")
    goal = small["guarded to 1e-6"]
    print(f"\nguarded to 1e-6: {1e3 * goal['seconds']:.1f} ms, {goal['steps']} steps, {goal['linearizations']} linearizations, {goal['rejected']} rejected, {goal['outcome']} ({judge(1e3 * goal['seconds'], 30)})")


def main(build, data=None):
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for dtype in (torch.float32, torch.float64):
        a = torch.randn(8192, 8192, device="cuda", dtype=dtype)
        print(f"matrix products, n = 8192, {dtype}: {2e-12 * 8192**3 / best_of(lambda: a @ a, 5):.1f} TFLOP/s")
    del a
    kernels(build)
    training(build, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
