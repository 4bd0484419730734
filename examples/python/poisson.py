"""A physics-informed network for a 1-D Poisson problem: −u″ = f on (0, 1), u(0) = u(1) = 0.

The loss is the user's own, a sum of squares: a function returns its residuals, and cdt.optim.Guarded needs nothing else. Adam is beside it.
"""

import math

import torch

import cdt


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
    cdt_errors, adam_errors = by_cdt(40), by_adam(2000)
    for name, errors in (("guarded", cdt_errors), ("Adam", adam_errors)):
        at = [k for k in (5, 10, 20, 40, 200, 1000, 2000) if k <= len(errors)]
        print(f"{name:8s}", "  ".join(f"{errors[k - 1]:.1e} after {k}" for k in at))
    assert min(cdt_errors) < 1e-4, "the relative error should be below 1e-4 in 40 steps"
