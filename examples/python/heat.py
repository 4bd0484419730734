"""A physics-informed network for the heat equation on a square: ∂u/∂t = κ(∂²u/∂x² + ∂²u/∂y²), zero at the border, a given start.

As poisson.py, in two dimensions and time. Border and start hold by construction, u = u₀ + 16 t x(1−x) y(1−y)·network, so that the equation is all that is
left to learn. Adam is beside it.
"""

import math

import torch

from beside_adam import compare

KAPPA = 0.05


def start(p):
    """u₀ at points (x, y, t)."""
    return torch.sin(math.pi * p[:, 0]) * torch.sin(math.pi * p[:, 1])


def exact(p):
    return torch.exp(-2 * math.pi**2 * KAPPA * p[:, 2]) * start(p)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()


def draw(count, seed):
    return torch.quasirandom.SobolEngine(3, scramble=True, seed=seed).draw(count).double()


def solution(model, p):
    x, y, t = p.unbind(1)
    return start(p) + 16 * t * x * (1 - x) * y * (1 - y) * model(p)[:, 0]


points = draw(200, 1).requires_grad_()


def residuals(model):
    (du,) = torch.autograd.grad(solution(model, points).sum(), points, create_graph=True)
    second = [torch.autograd.grad(du[:, i].sum(), points, create_graph=True)[0][:, i] for i in (0, 1)]
    return du[:, 2] - KAPPA * (second[0] + second[1])


def error(model):
    """Relative, in L2, at points that no residual was taken at."""
    other = draw(2048, 2)
    with torch.no_grad():
        return ((solution(model, other) - exact(other)).norm() / exact(other).norm()).item()


if __name__ == "__main__":
    compare(network, residuals, error, steps=30, adam_steps=200, below=1e-4)
