"""The pre-flight report: analysis before training."""

from __future__ import annotations

import html
import json
from typing import Any, Callable, Dict, Optional, Union

import torch

from . import _core
from ._model import Params, as_model, as_tensor, bytes_of, if_given, if_given_wide, number, positive, spelled, whole
from ._sealed import Sealed


class Report(Sealed):
    """The pre-flight report. Prints as text, displays as a table in notebooks, and gives its numbers by name."""

    def __init__(self, found: _core.Analysis) -> None:
        self._text = found.text
        self._fields: Dict[str, Any] = json.loads(found.json)
        self.eigenvalues: torch.Tensor = found.eigenvalues

    def to_dict(self) -> Dict[str, Any]:
        """The numbers, with the names of `cdt analyze --json` (docs/formats.md)."""
        copy: Dict[str, Any] = json.loads(json.dumps(self._fields))
        return copy

    def __getitem__(self, name: str) -> Any:
        if name not in self._fields:
            raise KeyError(f"{name!r}: the report has {', '.join(self._fields)}")
        return self._fields[name]

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(name)}</td><td style='text-align:right'>{html.escape(_short(value))}</td></tr>"
            for name, value in self._fields.items()
            if not isinstance(value, (dict, list))
        )
        return f"<details open><summary>pre-flight report</summary><pre>{html.escape(self._text)}</pre></details><table>{rows}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Plots the spectrum: the step s of each mode under gradient descent. Returns matplotlib axes."""
        ax = _axes(ax)
        loss_scale = 2 / self._fields["lr_max"] if self._fields.get("lr_max") else 0.0
        steps = self._fields["lr"] * loss_scale / max(float(self.eigenvalues[-1]), 1e-300) * self.eigenvalues.cpu()
        order = range(1, len(steps) + 1)
        ax.semilogy(order, steps.flip(0).clamp_min(1e-300), label="step s of each mode")
        ax.axhline(2, color="tab:red", linewidth=1, label="gradient descent diverges above")
        ax.axhline(1, color="tab:gray", linewidth=1, linestyle="--", label="and oscillates above")
        ax.set_xlabel("mode, the fastest first")
        ax.set_ylabel("lr · curvature · eigenvalue")
        ax.legend()
        return ax


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ImportError("plots need matplotlib (Debian: python3-matplotlib)") from None
    return plt.subplots()[1]


def analyze(
    model_or_kernel: Any,
    x: Any = None,
    y: Any = None,
    *,
    lr: Optional[float] = None,
    loss: Union[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = "mse",
    p: float = 0.1,
    q: float = 1.0,
    x_val: Any = None,
    y_val: Any = None,
    outputs: Any = None,
    trial_steps: int = 0,
    smoothing: Optional[float] = None,
    params: Optional[Params] = None,
    memory: Optional[int] = None,
    curvature_products: Optional[int] = None,
    controller: str = "lqr",
) -> Report:
    """Analyzes the kernel before training: whether training will be stable, which samples can be fitted, the largest stable rate.

    model_or_kernel  a module, a function (params, x) -> y with params=, or a kernel [n, n]
    x, y             the training samples; with a kernel, omit x; y [n] and outputs [n] are optional
    lr               default: half of the largest rate without oscillation
    loss             "mse" (as in PyTorch), "half-mse", "sse", or "cross-entropy" on logits; with a model also "huber:1",
                     "quantile:0.9", "poisson", or a function as in `cdt.fit`, by its curvature at the initial outputs
    p, q             weights of the controller on label augments and on errors
    controller       "lqr", the paper's; "damped"; or "descent": the design that is examined
    x_val, y_val     validation samples: the report then forecasts the best rate and p
    trial_steps      steps of a trial on a copy, which measures how long the local model holds
    smoothing        of class labels, for the cross entropy; default: 0.1
    curvature_products  limit on second-derivative products of a trial, for the norm of ∂²ŷ/∂θ²; default: 400, or 60 for a
                     large network

    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    >>> x = torch.randn(20, 2)
    >>> report = analyze(model, x, torch.sin(x[:, :1]), lr=0.1)
    >>> report["stable"], report["reachable"]
    (True, True)
    """
    if not callable(loss):
        loss = spelled(loss)
    products = None if curvature_products is None else whole(curvature_products, "curvature_products")
    lr, p, q = None if lr is None else positive(lr, "lr"), positive(p, "p"), number(q, "q")
    smoothing = None if smoothing is None else number(smoothing, "smoothing")
    if isinstance(model_or_kernel, _core.Model) or callable(model_or_kernel) or params is not None:
        model = as_model(model_or_kernel, params)
        if x is None or y is None:
            raise ValueError("the analysis of a model needs x and y, the training samples")
        if outputs is not None:
            raise ValueError("outputs go with a kernel; a model computes its own")
        samples = as_tensor(x, model), as_tensor(y, model, "y")
        held_out = if_given(x_val, model, "x_val"), if_given(y_val, model, "y_val")
        return Report(_core.analyze(model, *samples, *held_out, loss, lr, p, q, whole(trial_steps, "trial_steps"), smoothing, bytes_of(memory), products, spelled(controller)))
    if x is not None or x_val is not None or trial_steps or smoothing is not None:
        raise ValueError("x, x_val, trial_steps and smoothing go with a model; a kernel takes y and outputs")
    if not isinstance(loss, str):
        raise ValueError("a function as loss goes with a model; a kernel takes mse, half-mse or sse")
    theta = as_tensor(model_or_kernel, None, "the kernel")
    labels, found = if_given_wide(y, "y"), if_given_wide(outputs, "outputs")
    return Report(_core.analyze_kernel(theta.detach().double(), labels, found, loss, lr, p, q, theta.dtype != torch.float64, spelled(controller)))
