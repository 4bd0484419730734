#!/usr/bin/env python3
"""Draws docs/closed_loop.svg: what one training step leaves of the error of a mode, plainly and controlled.

usage: python3 docs/closed_loop.py > docs/closed_loop.svg
"""
import math

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 46, 60
LOW, HIGH = -2.0, 3.0  # decades of s
TALLEST = 1.5


def closed_loop(s, rho, q=1.0):
    beta = rho * (2 - s) - q * s
    w = (-beta + math.hypot(beta, 2 * math.sqrt(q * rho))) / 2
    return rho * (1 - s) / (rho + s * w)


def x(s):
    return LEFT + (math.log10(s) - LOW) / (HIGH - LOW) * (WIDTH - LEFT - RIGHT)


def y(value):
    return TOP + (1 - value / TALLEST) * (HEIGHT - TOP - BOTTOM)


def curve(function, color, dash=""):
    points = []
    for k in range(501):
        s = 10 ** (LOW + (HIGH - LOW) * k / 500)
        value = abs(function(s))
        if value <= TALLEST:
            points.append(f"{x(s):.1f},{y(value):.1f}")
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="2.5" stroke-dasharray="{dash}"/>'


def text(px, py, content, anchor="middle", size=13, color="#222", extra=""):
    return f'<text x="{px:.1f}" y="{py:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}" {extra}>{content}</text>'


out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="Helvetica, Arial, sans-serif">',
    "<title>What one training step leaves of a mode's error, against the step size of the mode</title>",
    f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    f'<rect x="{LEFT}" y="{y(TALLEST):.1f}" width="{WIDTH - LEFT - RIGHT}" height="{y(1) - y(TALLEST):.1f}" fill="#fbe9e7"/>',
    text(x(0.0115), y(1.08), "the error grows: training diverges", "start", 12, "#b23c17"),
]
for decade in range(int(LOW), int(HIGH) + 1):
    px = x(10.0**decade)
    label = {-2: "0.01", -1: "0.1", 0: "1", 1: "10", 2: "100", 3: "1000"}[decade]
    out.append(f'<line x1="{px:.1f}" y1="{y(0):.1f}" x2="{px:.1f}" y2="{y(TALLEST):.1f}" stroke="#e0e0e0"/>')
    out.append(text(px, y(0) + 18, label, size=12))
for value in (0, 0.5, 1, 1.5):
    out.append(f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{WIDTH - RIGHT}" y2="{y(value):.1f}" stroke="#e0e0e0"/>')
    out.append(text(LEFT - 8, y(value) + 4, f"{value:g}", "end", 12))
out += [
    curve(lambda s: 1 - s, "#b23c17"),
    curve(lambda s: closed_loop(s, 10.0), "#7aa6c2", "7 4"),
    curve(lambda s: closed_loop(s, 1.0), "#3d7ea6", "3 3"),
    curve(lambda s: closed_loop(s, 0.1), "#0b4f6c"),
    text(x(2.75), y(1.36), "gradient descent", "start", 13, "#b23c17"),
    text(x(0.0115), y(0.72), "p = 0.1", "start", 13, "#0b4f6c"),
    text(x(26), y(0.13), "controlled descent, p = 0.1", "start", 13, "#0b4f6c"),
    text(x(26), y(0.235), "p = 1", "start", 13, "#3d7ea6"),
    text(x(26), y(0.33), "p = 10", "start", 13, "#5f93b3"),
    text(LEFT, 24, "Share of a mode's error that one training step leaves", "start", 15, "#111", 'font-weight="bold"'),
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, "s = learning rate × kernel eigenvalue (as the loss scales it)"),
    "</svg>",
]
print("\n".join(out))
