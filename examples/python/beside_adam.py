"""For the physics-informed examples: guarded steps on the residuals of an equation, and Adam on their mean square, with the solution's error after each step."""

import torch

import cdt


def guarded_errors(network, residuals, error, steps):
    model = network()
    opt = cdt.optim.Guarded(model, p=1e-8)  # nothing here is noise: steer hard
    errors = []
    for _ in range(steps):
        opt.step(lambda: residuals(model))
        errors.append(error(model))
    return errors


def adam_errors(network, residuals, error, steps, lr=3e-3):
    model = network()
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    errors = []
    for _ in range(steps):
        opt.zero_grad()
        residuals(model).square().mean().backward()
        opt.step()
        errors.append(error(model))
    return errors


def compare(network, residuals, error, steps, adam_steps, below):
    """Prints both, and requires that guarded steps come below this error."""
    guarded, adam = guarded_errors(network, residuals, error, steps), adam_errors(network, residuals, error, adam_steps)
    for name, errors in (("guarded", guarded), ("Adam", adam)):
        at = [k for k in (5, 10, 20, 100, 500) if k < len(errors)] + [len(errors)]
        print(f"{name:8s}", "  ".join(f"{errors[k - 1]:.1e} after {k}" for k in at))
    assert min(guarded) < below, f"the relative error should be below {below:g} in {steps} steps, but is {min(guarded):.1e}"
