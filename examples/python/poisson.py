"""A physics-informed network for a 1-D Poisson problem: −u″ = f on (0, 1), u(0) = u(1) = 0.

The loss is the user's own, a sum of squares: a function returns its residuals, and cdt.optim.Guarded needs nothing else. Adam is beside it.
"""

import math

import torch

from beside_adam import compare


def exact(x):
    return torch.sin(math.pi * x)


def source(x):
    return math.pi**2 * torch.sin(math.pi * x)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).double()


inside = torch.linspace(0, 1, 102, dtype=torch.float64)[1:-1].unsqueeze(1).requires_grad_()
ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
f = source(inside.detach())


def residuals(model):
    u = model(inside)
    (du,) = torch.autograd.grad(u.sum(), inside, create_graph=True)
    (d2u,) = torch.autograd.grad(du.sum(), inside, create_graph=True)
    return torch.cat([0.1 * (d2u + f), 10 * model(ends)])


def error(model):
    """Relative, in L2, between the points of the residuals."""
    x = torch.linspace(0, 1, 1001, dtype=torch.float64).unsqueeze(1)
    with torch.no_grad():
        return ((model(x) - exact(x)).norm() / exact(x).norm()).item()


if __name__ == "__main__":
    compare(network, residuals, error, steps=40, adam_steps=500, below=1e-4)
