"""A physics-informed network for the heat equation on a square: ∂u/∂t = κ(∂²u/∂x² + ∂²u/∂y²), zero at the border, a given start.

As poisson.py, in two dimensions and time. Border and start hold by construction, u = u₀ + 16 t x(1−x) y(1−y)·network, so that the equation is all that is
left to learn. Adam is beside it.
"""

import math

import torch

import cdt

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


def by_cdt(steps):
    model = network()
    opt = cdt.optim.Guarded(model, p=1e-8)  # nothing here is noise: steer hard
    errors = []
    for _ in range(steps):
        opt.step(lambda: residuals(model))
        errors.append(error(model))
    return errors


def by_adam(steps, lr=3e-3):
    model = network()
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    errors = []
    for _ in range(steps):
        opt.zero_grad()
        residuals(model).square().mean().backward()
        opt.step()
        errors.append(error(model))
    return errors


if __name__ == "__main__":
    cdt_errors, adam_errors = by_cdt(30), by_adam(500)
    for name, errors in (("guarded", cdt_errors), ("Adam", adam_errors)):
        at = [k for k in (5, 10, 20, 30, 100, 500) if k <= len(errors)]
        print(f"{name:8s}", "  ".join(f"{errors[k - 1]:.1e} after {k}" for k in at))
    assert min(cdt_errors) < 1e-4, "the relative error should be below 1e-4 in 30 steps"
