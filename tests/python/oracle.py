"""What tests compare with: plain PyTorch, on the whole batch."""

import torch


def jacobian(model, x, params=None):
    """∂y/∂θ [n, P] in float64, by torch.autograd.functional, with all samples in one batch."""
    try:
        from torch.func import functional_call
    except ImportError:
        from torch.nn.utils.stateless import functional_call
    named = {name: p for name, p in model.named_parameters() if p.requires_grad} if params is None else params

    def outputs(*values):
        return functional_call(model, dict(zip(named, values)), (x,))

    parts = torch.autograd.functional.jacobian(outputs, tuple(p.detach() for p in named.values()))
    n = outputs(*named.values()).numel()
    return torch.cat([part.reshape(n, -1) for part in parts], 1).double()


def jacobian_kernel(model, x, params=None):
    rows = jacobian(model, x, params)
    return rows @ rows.T


def relative_error(value, expected):
    return ((value - expected).norm() / expected.norm()).item()
