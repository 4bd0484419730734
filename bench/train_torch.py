"""Times PyTorch eager on a network whose parameters and data come as .npy files.

usage: train_torch.py FOLDER LAYERS THREADS GOAL    (prints one JSON object)
FOLDER holds x.npy, y.npy, w0.npy, b0.npy, ...; the baselines run to the training MSE GOAL, or not at all for 0.
"""
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import torch

folder, layers, threads, goal = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
torch.set_num_threads(threads)
load = lambda name: torch.from_numpy(np.load(folder / f"{name}.npy"))
x, y = load("x"), load("y")


def network():
    modules = []
    for i in range(layers):
        weight = load(f"w{i}")
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight.data.copy_(weight)
        linear.bias.data.copy_(load(f"b{i}"))
        modules += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*modules[:-1])


def gradient_step(net, optimizer):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def eager_step():
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), 1e-6)
    seconds = []
    for _ in range(60):
        start = time.perf_counter()
        gradient_step(net, optimizer)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def first_order(make, cap):
    net = network()
    optimizer = make(net.parameters())
    start = time.perf_counter()
    for step in range(cap):
        if gradient_step(net, optimizer) <= goal:
            return {"seconds": time.perf_counter() - start, "steps": step, "reached": True}
    return {"seconds": time.perf_counter() - start, "steps": cap, "reached": False}


def lbfgs(cap):
    net = network()
    optimizer = torch.optim.LBFGS(net.parameters(), line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(net(x), y)
        loss.backward()
        return loss

    start = time.perf_counter()
    for step in range(cap):
        if optimizer.step(closure).item() <= goal:  # the loss before the step
            return {"seconds": time.perf_counter() - start, "steps": step, "reached": True}
    return {"seconds": time.perf_counter() - start, "steps": cap, "reached": False}


result = {"torch": torch.__version__, "step": eager_step()}
if goal > 0:
    rates = {rate: first_order(lambda p: torch.optim.Adam(p, rate), 3000) for rate in (1e-3, 3e-3)}
    best = min(rates, key=lambda rate: (not rates[rate]["reached"], rates[rate]["seconds"]))
    result["adam"] = dict(rates[best], rate=best)
    result["lbfgs"] = lbfgs(300)
print(json.dumps(result))
