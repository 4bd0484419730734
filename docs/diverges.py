#!/usr/bin/env python3
"""Draws docs/diverges.svg: the training loss of examples/python/drop_in.py, by gradient descent and by controlled descent, step by step.

usage: PYTHONPATH=build/python /usr/bin/python3 docs/diverges.py > docs/diverges.svg
"""
import math

import torch
import torch.nn.functional as F

import cdt

STEPS, RATE = 300, 3.0
WIDTH, HEIGHT = 760, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 44, 52
LOW, HIGH = -5.0, 4.0  # decades of the loss
DESCENT, CONTROLLED = "#b23c17", "#0b4f6c"


def losses(controlled):
    torch.manual_seed(1)
    x = torch.rand(64, 4) - 0.5
    y = (torch.sin(3 * x[:, 0]) * x[:, 1]).unsqueeze(1)
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    controller = cdt.Controller(model, x, y, lr=RATE)
    for _ in range(STEPS + 1):
        y_hat = model(x)
        loss = F.mse_loss(y_hat, y).item()
        if not math.isfinite(loss):
            return
        yield loss
        steered = F.mse_loss(y_hat, controller.augment(y_hat) if controlled else y)
        optimizer.zero_grad()
        steered.backward()
        optimizer.step()


def px(step):
    return LEFT + step / STEPS * (WIDTH - LEFT - RIGHT)


def py(loss):
    return TOP + (HIGH - math.log10(loss)) / (HIGH - LOW) * (HEIGHT - TOP - BOTTOM)


def curve(values, color):
    points = " ".join(f"{px(k):.1f},{py(v):.1f}" for k, v in enumerate(values))
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5" clip-path="url(#plot)"/>'


def text(at, up, content, anchor="middle", size=13, color="#222", extra=""):
    return f'<text x="{at:.1f}" y="{up:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}" {extra}>{content}</text>'


descent, controlled = list(losses(False)), list(losses(True))
assert len(descent) < 20 and controlled[-1] < 1e-3, "the figure shows another experiment than it says"
right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, sans-serif">',
    "<title>Training loss against the step, at a learning rate of 3, by gradient descent and by controlled descent</title>",
    f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}"/></clipPath>',
    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    text(LEFT, 22, f"The same network and data at a learning rate of {RATE:g}: training loss, step by step", "start", 15, "#111", 'font-weight="bold"'),
]
for decade in range(int(LOW), int(HIGH) + 1, 3):
    up = py(10.0**decade)
    out.append(f'<line x1="{LEFT}" y1="{up:.1f}" x2="{right}" y2="{up:.1f}" stroke="#e0e0e0"/>')
    label = {0: "1"}.get(decade, f'10<tspan dy="-5" font-size="9">{str(decade).replace("-", "−")}</tspan>')
    out.append(text(LEFT - 8, up + 4, label, "end", 12))
for step in range(0, STEPS + 1, 50):
    out.append(text(px(step), bottom + 18, str(step), size=12))
out += [
    curve(descent, DESCENT),
    curve(controlled, CONTROLLED),
    text(px(14), py(10**3), f"gradient descent: not a number after {len(descent)} steps", "start", 13, DESCENT),
    text(px(150), py(6e-4), f"controlled descent: {controlled[-1]:.1e} after {STEPS} steps", "start", 13, CONTROLLED),
    text((LEFT + right) / 2, HEIGHT - 12, "step"),
    "</svg>",
]
print("\n".join(out))
