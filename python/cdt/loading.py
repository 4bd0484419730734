"""Runs of the program `cdt`, as objects that predict; and trained models as plain PyTorch."""

from __future__ import annotations

import os
import warnings
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import torch
from torch import Tensor, nn

from . import _core
from ._frames import add_column, column_of, is_frame, names_of, threads_of


class ScaledLinear(nn.Linear):
    """x (f W)ᵀ + g b: a layer whose parametrisation has factors f and g."""

    def __init__(self, inputs: int, outputs: int, bias: bool, weight_factor: float, bias_factor: float) -> None:
        super().__init__(inputs, outputs, bias)
        self.weight_factor = weight_factor
        self.bias_factor = bias_factor

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias * self.bias_factor
        return nn.functional.linear(x, self.weight * self.weight_factor, bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, factors={self.weight_factor:.4g}, {self.bias_factor:.4g}"


class Erf(nn.Module):
    """erf(x), elementwise."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


_ACTIVATIONS: Dict[str, Any] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "softplus": nn.Softplus, "erf": Erf}


def _layer(weight: Tensor, bias: Optional[Tensor], weight_factor: float, bias_factor: float) -> nn.Linear:
    outputs, inputs = weight.shape
    layer: nn.Linear
    if weight_factor == 1 and (bias is None or bias_factor == 1):
        layer = nn.Linear(inputs, outputs, bias is not None)
    else:
        layer = ScaledLinear(inputs, outputs, bias is not None, weight_factor, bias_factor)
    layer.weight = nn.Parameter(weight)
    if bias is not None:
        layer.bias = nn.Parameter(bias)
    return layer


def _network(activation: str, layers: List[Tuple[Tensor, Optional[Tensor], float, float]]) -> nn.Sequential:
    modules: List[nn.Module] = []
    for layer in layers:
        if modules:
            modules.append(_ACTIVATIONS[activation]())
        modules.append(_layer(*layer))
    return nn.Sequential(*modules)


class EnsembleModule(nn.Module):
    """Encoded features [n, F] to predictions: of numbers [n, t] in the units of the training data, of classes probabilities [n, C].

    `members` are the networks, each an nn.Sequential. Their outputs are averaged, held to the range of the training targets, and scaled back; of classes
    their probabilities are averaged.
    """

    offset: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    factor: Tensor
    log: Tensor

    def __init__(self, trained: _core.Trained) -> None:
        super().__init__()
        self.members = nn.ModuleList(_network(activation, layers) for activation, layers in trained.members())
        self.classes = bool(trained.classes)
        self.temperature = trained.temperature
        targets = trained.targets()
        self.any_log = any(target["log"] for target in targets)
        # Units of the data may be far from 1, where float32 keeps few digits after the mean.
        for name in ("offset", "scale", "low", "high", "factor"):
            self.register_buffer(name, torch.tensor([target[name] for target in targets], dtype=torch.float64))
        self.register_buffer("log", torch.tensor([target["log"] for target in targets]))

    def forward(self, x: Tensor) -> Tensor:
        outputs = [member(x).double() for member in self.members]
        if self.classes:
            outputs = [torch.softmax(z / self.temperature, 1) for z in outputs]
        mean = torch.stack(outputs).mean(0)
        if self.classes:
            return mean
        units = torch.minimum(torch.maximum(mean, self.low), self.high) * self.scale + self.offset
        if self.any_log:
            units = torch.where(self.log, units.exp(), units)
        return units * self.factor


class Run:
    """A finished run of `cdt train`: its encoding, its networks and their intervals. Made by `cdt.load`."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, n_jobs: Optional[int] = None) -> None:
        self.path = os.fspath(path)
        self.n_jobs = n_jobs
        self._trained: _core.Trained = _core.load_run(self.path)

    @property
    def columns(self) -> List[str]:
        """Names of the columns that a table must have."""
        return [name for name, _ in self._trained.columns]

    @property
    def targets(self) -> List[str]:
        """Names of what is predicted."""
        return [target["name"] for target in self._trained.targets()]

    @property
    def classes(self) -> List[str]:
        """The classes, in the order of `predict_proba`; none if numbers are predicted."""
        return list(self._trained.classes)

    @property
    def features(self) -> List[str]:
        """Names of the encoded features, in the order that `module` takes them."""
        return list(self._trained.features)

    @property
    def module(self) -> EnsembleModule:
        """What predicts, as a plain torch.nn.Module: `run.module(run.encode(frame))` is `run.predict(frame)` to rounding.

        A new module each time, in the precision that the run was trained in; torch.jit.trace and torch.onnx.export take it.
        """
        return EnsembleModule(self._trained)

    def encode(self, frame: Any) -> Tensor:
        """The features of a frame [n, F], encoded and scaled as for training, in the precision of the networks."""
        return self._trained.encode(self._table(frame), threads_of(self.n_jobs)).to(self._trained.dtype)

    def predict(self, frame: Any) -> Any:
        """Predictions in the units of the training file: [n], or [n, t] of several targets; of classes their names [n]."""
        values = self._values(frame)
        if self.classes:
            return np.asarray(self.classes, dtype=object)[values.argmax(1)]
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, frame: Any) -> Any:
        """The probability of each class [n, C]."""
        if not self.classes:
            raise ValueError(f"{self.path}: predicts numbers, which have no probabilities; predict_interval gives bounds")
        return self._values(frame)

    def predict_interval(self, frame: Any, coverage: float = 0.9) -> Any:
        """Bounds [n, 2], or [n, t, 2] of several targets, that hold this share of new rows."""
        low, high = self._trained.bounds(self._table(frame), coverage, threads_of(self.n_jobs))
        both = np.stack([low.numpy(), high.numpy()], -1)
        return both[:, 0] if both.shape[1] == 1 else both

    def __repr__(self) -> str:
        what = f"classes of {self.targets[0]!r}" if self.classes else ", ".join(repr(name) for name in self.targets)
        return f"<cdt run {self.path!r}: {len(self._trained.members())} networks predict {what} from {len(self.columns)} columns>"

    def _values(self, frame: Any) -> Any:
        return self._trained.predict(self._table(frame), threads_of(self.n_jobs)).numpy()

    def _table(self, frame: Any) -> _core.Table:
        if not is_frame(frame):
            raise ValueError(f"expected a frame with the columns {', '.join(self.columns[:8])}, but a {type(frame).__name__} came")
        names = names_of(frame)
        table = _core.Table("the frame", frame.shape[0])
        for name, text in self._trained.columns:
            if name in names:  # the library says which are missing
                add_column(table, name, column_of(frame, names.index(name)), text, "the frame")
        for column, rows, first in self._trained.unknown(table):
            warnings.warn(f"{rows} rows of column {column!r} have what training did not know, {first!r} first; taken for missing", stacklevel=4)
        return table


def load(path: Union[str, "os.PathLike[str]"], *, n_jobs: Optional[int] = None) -> Run:
    """A run folder of the program: what `cdt train … --out run1` has written.

    >>> run = cdt.load("run1")                                   # doctest: +SKIP
    >>> run.predict(pandas.read_csv("new.csv"))                  # doctest: +SKIP
    >>> traced = torch.jit.trace(run.module, run.encode(frame))  # doctest: +SKIP

    A folder that is damaged, or holds no finished run, is refused:

    >>> load("no such folder")
    Traceback (most recent call last):
        ...
    ValueError: no such folder: expected the folder of a run
    """
    return Run(path, n_jobs=n_jobs)
