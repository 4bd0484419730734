#!/usr/bin/env python3
"""One walk of the decay path on a GPU beside Adam through PyTorch, on the rows of one table, in one run.

usage: scale_gpu.py PROGRAM TABLE.csv TARGET [--encoded FILE.npz] [--seeds 1,2,3] [--adam 1024:3e-3,256:3e-3] [--hidden 128,128]

PROGRAM is a build with CUDA. It trains from a cold start, once a seed; its own clock counts from the first point on, that of the process everything. Adam gets the same rows to
train with and to stop by (a patience of 20 epochs), resident on the GPU, with fused steps, after a run to warm up; its clock is read after each epoch. FILE.npz holds encoded rows x
[r, F] and targets y [r], scaled, in the order of the table; without it numbers are standardised, texts one-hot, and the target is its standardised logarithm.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

PATIENCE = 20
MOST_EPOCHS = 300


def encoded(table, target):
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    columns, y = [], None
    for name in rows[0]:
        cells = [row[name] for row in rows]
        try:
            values = np.array([float(cell) for cell in cells])
        except ValueError:
            kinds = {kind: k for k, kind in enumerate(sorted(set(cells)))}
            columns.append(np.eye(len(kinds))[[kinds[cell] for cell in cells]])
            continue
        if name == target:
            values = np.log(values)
        values = (values - values.mean()) / max(values.std(), 1e-12)
        if name == target:
            y = values
        else:
            columns.append(values[:, None])
    return np.concatenate(columns, 1).astype(np.float32), y.astype(np.float32)


def program_run(arguments, seed, folder):
    """Seconds of training and held-out errors by point, seconds of the process, rows of each split."""
    out = pathlib.Path(folder) / f"run{seed}"
    command = [arguments.program, "train", arguments.table, "--target", arguments.target, "--test-fraction", "0.2", "--hidden", arguments.hidden, "--ensemble", "1", "--no-refit",
               "--no-intervals", "--form", "sketch", "--device", "cuda", "--seed", str(seed), "--out", str(out), "--quiet"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    whole = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    with open(out / "history.csv", newline="") as file:
        history = list(csv.DictReader(file))
    # A row has the error where its point begins, and the clock where it ends.
    times = [0.0] + [float(row["seconds"]) for row in history]
    errors = [float(row["val_loss"]) for row in history]
    split = {"train": [], "validation": [], "test": []}
    with open(out / "predictions.csv", newline="") as file:
        for row in csv.DictReader(file):
            split[row["split"]].append(int(row["row"]) - 1)
    seconds = json.loads((out / "run.json").read_text())["seconds"]
    return {"points": list(zip(times, errors)), "ended": times[-1], "process": whole, "load": seconds["load"], "split": split}


def adam_run(x, y, split, hidden, batch, rate, seed, epochs=MOST_EPOCHS):
    import torch
    from torch import nn

    torch.manual_seed(seed)
    widths = [x.shape[1]] + [int(units) for units in hidden.split(",")] + [1]
    layers = []
    for width, following in zip(widths, widths[1:]):
        layers += [nn.Linear(width, following), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).cuda()
    rows = [torch.as_tensor(np.asarray(split[name]), device="cuda") for name in ("train", "validation")]
    (x_train, x_val), (y_train, y_val) = [[of[some] for some in rows] for of in (x, y)]
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    scale = y_train.var()
    best, best_epoch, points = float("inf"), 0, []
    torch.cuda.synchronize()
    start = time.perf_counter()
    for epoch in range(epochs):
        order = torch.randperm(len(x_train), device="cuda")
        for first in range(0, len(order), batch):
            some = order[first:first + batch]
            optimizer.zero_grad(set_to_none=True)
            nn.functional.mse_loss(model(x_train[some]).squeeze(1), y_train[some]).backward()
            optimizer.step()
        with torch.no_grad():
            error = (nn.functional.mse_loss(model(x_val).squeeze(1), y_val) / scale).item()
        points.append((time.perf_counter() - start, error))
        if error < best:
            best, best_epoch = error, epoch
        if epoch - best_epoch >= PATIENCE:
            break
    return {"points": points, "ended": points[-1][0]}


def show(name, found):
    best_at, best = min(found["points"], key=lambda point: point[1])
    at = lambda error: next((f"{seconds:.2f}" for seconds, value in found["points"] if value <= error), "never")
    process = f", process {found['process']:.2f} (load {found['load']:.2f})" if "process" in found else ""
    print(f"{name:32} best {best:.5f} at {best_at:.2f} s; 0.0085 at {at(0.0085)}, 0.0083 at {at(0.0083)}; first point {found['points'][1][0]:.3f}, {len(found['points'])} points, "
          f"ended {found['ended']:.2f}{process}", flush=True)
    return best_at, best


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("table")
    parser.add_argument("target")
    parser.add_argument("--encoded")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--adam", default="1024:3e-3,256:3e-3")
    parser.add_argument("--hidden", default="128,128")
    parser.add_argument("--skip-adam", action="store_true")
    arguments = parser.parse_args()
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        runs = {seed: program_run(arguments, seed, folder) for seed in seeds}
    for seed in seeds:
        show(f"sketch, seed {seed}", runs[seed])
    if arguments.skip_adam:
        return
    import torch

    if arguments.encoded:
        archive = np.load(arguments.encoded)
        x, y = archive["x"], archive["y"]
    else:
        x, y = encoded(arguments.table, arguments.target)
    x, y = torch.as_tensor(x, device="cuda"), torch.as_tensor(y, device="cuda")
    for setting in arguments.adam.split(","):
        batch, rate = setting.split(":")
        warm = runs[seeds[0]]["split"]
        show(f"Adam {setting}, first run", adam_run(x, y, warm, arguments.hidden, int(batch), float(rate), 0, epochs=5))
        for seed in seeds:
            found = adam_run(x, y, runs[seed]["split"], arguments.hidden, int(batch), float(rate), seed)
            at, best = show(f"Adam {setting}, seed {seed}", found)
            own_at, own_best = min(runs[seed]["points"], key=lambda point: point[1])
            reached = next((seconds for seconds, value in runs[seed]["points"] if value <= best), None)
            print(f"    to its best: sketch {own_at:.2f} s, {at / own_at:.1f} times as fast" +
                  (f"; to Adam's best {reached:.2f} s, {at / reached:.1f} times" if reached else "; Adam's best was not reached"), flush=True)


if __name__ == "__main__":
    sys.exit(main())
