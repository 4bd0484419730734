"""Loads runs of the program `cdt` for prediction, and trained models as plain PyTorch modules."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Tuple, Union

import numpy as np
import torch
from torch import Tensor, nn

from . import _core
from ._frames import is_frame, known_columns, names_of, threads_of
from ._model import as_tensor
from ._networks import ScaledPictures, nearest_probabilities, network_of
from ._sealed import Sealed, SealedModule


class EnsembleModule(SealedModule):
    """Predicts from encoded features [n, F], or pictures [n, c, h, w] in [0, 1]: numbers [n, t] in the units of the training
    data, or class probabilities [n, C].

    `members` are the networks. Their outputs are averaged, clamped to the range of the training targets, and scaled back; for
    classes their probabilities are averaged. A linear model, if there is one, is the last and has the share `line`.
    """

    offset: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor
    factor: Tensor
    line: Tensor
    log: Tensor
    loss: Optional[str] = None

    def __init__(self, trained: _core.Trained) -> None:
        super().__init__()
        self.scaling: nn.Module = nn.Identity() if trained.pictures is None else ScaledPictures(trained.pictures, trained.dtype)
        self.members = nn.ModuleList(network_of(member) for member in trained.members())
        self.classes = bool(trained.classes)
        self.squares = trained.squares
        self.temperature = trained.temperature
        self.loss = trained.loss
        targets = trained.targets()
        self.any_log = any(target["log"] for target in targets)
        self.any_line = any(target["line"] > 0 for target in targets)
        # In float64, since float32 loses digits if the targets' mean is large compared with their deviation.
        for name in ("offset", "scale", "low", "high", "factor", "line"):
            self.register_buffer(name, torch.tensor([target[name] for target in targets], dtype=torch.float64))
        self.register_buffer("log", torch.tensor([target["log"] for target in targets]))

    def forward(self, x: Tensor) -> Tensor:
        x = self.scaling(x)
        outputs = [member(x).double() for member in self.members]
        if self.classes:
            outputs = [nearest_probabilities(z) if self.squares else torch.softmax(z / self.temperature, 1) for z in outputs]
        mean: Tensor
        if self.any_line:
            mean = (1 - self.line) * torch.stack(outputs[:-1]).mean(0) + self.line * outputs[-1]
        else:
            mean = torch.stack(outputs).mean(0)
        if self.classes:
            return mean
        if self.loss is not None:
            mean = _core.mean_of(self.loss, mean)
        units = torch.minimum(torch.maximum(mean, self.low), self.high) * self.scale + self.offset
        if self.any_log:
            units = torch.where(self.log, units.exp(), units)
        scaled: Tensor = units * self.factor
        return scaled


class Run(Sealed):
    """A finished run of `cdt train`: its encoding, networks and intervals. Returned by `cdt.load`."""

    def __init__(self, path: str, trained: _core.Trained, n_jobs: Optional[int] = None, unknown: str = "warn") -> None:
        self.path = path
        self.n_jobs = n_jobs
        self.unknown = unknown
        self._trained = trained

    @property
    def columns(self) -> List[str]:
        """Names of the required columns."""
        return [name for name, _ in self._trained.columns]

    @property
    def targets(self) -> List[str]:
        """Names of the targets."""
        return [target["name"] for target in self._trained.targets()]

    @property
    def classes(self) -> List[str]:
        """The classes, in the order of `predict_proba`; empty for numeric targets."""
        return list(self._trained.classes)

    @property
    def features(self) -> List[str]:
        """Names of the encoded features, in the order of `module`'s input."""
        return list(self._trained.features)

    @property
    def module(self) -> EnsembleModule:
        """The predictor as a plain torch.nn.Module: `run.module(run.encode(frame))` equals `run.predict(frame)` up to rounding.

        Returns a new module each time, in the dtype of training; works with torch.jit.trace and torch.onnx.export. (For
        picture networks, weights include the factors of the parametrisation.)
        """
        return EnsembleModule(self._trained)

    def encode(self, frame: Any) -> Tensor:
        """The features [n, F] of a frame, encoded and scaled as in training, in the dtype of the networks."""
        return self._trained.encode(self._table(frame), threads_of(self.n_jobs)).to(self._trained.dtype)

    def predict(self, frame: Any) -> Any:
        """Predictions in the units of the training file: [n], or [n, t] for several targets; class names [n] for classes."""
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
        """Bounds [n, 2], or [n, t, 2] for several targets, that contain this share of new rows."""
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
            raise ValueError(f"expected a frame with the columns {', '.join(self.columns[:8])}, got a {type(frame).__name__}")
        return known_columns(self._trained, frame, names_of(frame), "the frame", self.unknown)


class PictureRun(Run):
    """A finished run of `cdt train` on pictures. Predicts for a folder, a JPEG, PNG or IDX file, or a tensor or array of
    pictures [n, c, h, w] in [0, 1] (or integers up to 255). Returned by `cdt.load`."""

    @property
    def shape(self) -> Tuple[int, ...]:
        """Shape of a picture: channels, height, width. Pictures from files are resized to it."""
        assert self._trained.pictures is not None
        return tuple(self._trained.pictures["shape"])

    def read(self, path: Union[str, "os.PathLike[str]"]) -> Tuple[List[str], Tensor]:
        """Reads a folder or file. Returns the names of the pictures, in the order of predictions, and the pictures [n, c, h, w]."""
        table = _core.picture_table(os.fspath(path), self.shape)
        return table.names, table.pictures()

    def encode(self, frame: Any) -> Tensor:
        """Pictures [n, c, h, w] in [0, 1] as input of `module`, in the dtype of the networks."""
        return self._table(frame).pictures().to(self._trained.dtype)

    def __repr__(self) -> str:
        what = " × ".join(str(side) for side in self.shape)
        return f"<cdt run {self.path!r}: {len(self._trained.members())} networks predict the classes {', '.join(self.classes)} of pictures {what}>"

    def _table(self, frame: Any) -> _core.Table:
        if isinstance(frame, (str, os.PathLike)):
            return _core.picture_table(os.fspath(frame), self.shape)
        x = as_tensor(frame, None, "the pictures").detach().cpu()
        if x.dim() != 4 or tuple(x.shape[1:]) != self.shape:
            raise ValueError(f"expected pictures of the shape [n, {', '.join(map(str, self.shape))}], got {list(x.shape)}")
        x = x.float() if x.is_floating_point() else x.float() / 255
        if x.numel() > 0 and not (x.min() >= 0 and x.max() <= 1):
            raise ValueError(f"expected pictures in [0, 1], or whole numbers to 255, got {x.min():.4g} to {x.max():.4g}")
        return _core.tensor_table(x)


def load(path: Union[str, "os.PathLike[str]"], *, n_jobs: Optional[int] = None, unknown: str = "warn") -> Run:
    """Loads a run folder, as written by `cdt train … --out run1`. Returns a PictureRun for a run on pictures.

    `unknown`: what to do about values unknown in training, and missing ones in columns that had none: "warn" or "refuse".

    >>> run = cdt.load("run1")                                   # doctest: +SKIP
    >>> run.predict(pandas.read_csv("new.csv"))                  # doctest: +SKIP
    >>> traced = torch.jit.trace(run.module, run.encode(frame))  # doctest: +SKIP

    Raises ValueError if the folder is damaged or holds no finished run:

    >>> load("no such folder")
    Traceback (most recent call last):
        ...
    ValueError: no such folder: expected the folder of a run
    """
    path = os.fspath(path)
    trained = _core.load_run(path)
    return (Run if trained.pictures is None else PictureRun)(path, trained, n_jobs, unknown)
