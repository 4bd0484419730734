"""What tests compare with: plain PyTorch, on the whole batch."""

import torch


def _jacobian_parts(model, x, params):
    """∂y/∂θ of each parameter, [n, P_i], by torch.autograd.functional, with all samples in one batch."""
    try:
        from torch.func import functional_call
    except ImportError:
        from torch.nn.utils.stateless import functional_call
    named = {name: p for name, p in model.named_parameters() if p.requires_grad} if params is None else params

    def outputs(*values):
        return functional_call(model, dict(zip(named, values)), (x,))

    parts = torch.autograd.functional.jacobian(outputs, tuple(p.detach() for p in named.values()))
    n = outputs(*named.values()).numel()
    return [part.reshape(n, -1) for part in parts]


def jacobian(model, x, params=None):
    """∂y/∂θ [n, P] in float64."""
    return torch.cat(_jacobian_parts(model, x, params), 1).double()


def jacobian_kernel(model, x, params=None):
    """Its Gram matrix [n, n] in float64, parameter by parameter: the Jacobian of a large model is not copied."""
    return sum(part.double() @ part.double().T for part in _jacobian_parts(model, x, params))


def relative_error(value, expected):
    return ((value - expected).norm() / expected.norm()).item()


def kernel_by_rows(model, x):
    """The same by one backward pass after another, for modules that functional_call cannot see into (LSTM keeps its weights in a list as well)."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = [torch.autograd.grad(value, parameters, retain_graph=True) for value in model(x).reshape(-1)]
    J = torch.stack([torch.cat([part.reshape(-1) for part in row]) for row in rows]).double()
    return J @ J.T
