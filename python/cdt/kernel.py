"""Neural tangent kernels of PyTorch models."""

from __future__ import annotations

from typing import Any, Optional

import torch

from . import _core
from ._model import Params, as_model, as_tensor


def ntk(
    model: Any,
    x: Any,
    x2: Any = None,
    *,
    params: Optional[Params] = None,
    memory: Optional[int] = None,
    accumulate: torch.dtype = torch.float64,
) -> torch.Tensor:
    """The empirical neural tangent kernel J Jᵀ, [n, n], or between the samples x and x2, [n, n2].

    Rows are stacked sample by sample: entry (i·c + a, j·c + b) belongs to output a of sample i and output b of sample j, with c outputs a sample.

    model       any torch.nn.Module, or a function (params, x) -> y
    params      of a function, its parameters: a list, or a dict by name; of a module, which parameters count (default: all that require gradients)
    memory      bytes to use beyond the kernel itself (default: 2 GiB); samples are processed in blocks that fit
    accumulate  dtype of the kernel and of its sums

    Layers must treat samples one by one: batch norm and dropout in training mode are refused, call model.eval() first. The kernel checks itself against
    autograd and is never returned where it fails.

    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> theta = ntk(model, torch.randn(4, 2))
    >>> theta.shape, theta.dtype
    (torch.Size([4, 4]), torch.float64)
    >>> w = torch.ones(2, requires_grad=True)
    >>> ntk(lambda params, x: x @ params["w"], torch.eye(2), params={"w": w})
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """
    made = as_model(model, params)
    other = None if x2 is None else as_tensor(x2, made, "x2")
    return _core.ntk(made, as_tensor(x, made), other, memory, accumulate).theta
