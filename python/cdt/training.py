"""The whole training loop, on your own module."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import torch

from . import _core
from ._model import Params, as_model, as_tensor

# Of goal="predict": the share of rows held out, and the points without a lower loss of theirs after which a path ends.
_HELD_OUT = 0.2
_PATIENCE = 5
_MOST_POINTS = 40


def train_options(**settings: Any) -> _core.TrainOptions:
    """The library's options; None leaves its default."""
    options = _core.TrainOptions()
    known = {name for name in dir(options) if not name.startswith("_") and name != "require_valid"}
    for name, value in settings.items():
        if name not in known:
            raise TypeError(f"unknown setting {name!r}; there are {', '.join(sorted(known))}")
        if value is not None:
            try:
                setattr(options, name, value)
            except TypeError:
                raise TypeError(f"{name} cannot be {value!r}") from None
    return options


@dataclass
class FitResult:
    """How a training ended. `history` has a row for each step, as arrays by name."""

    outcome: str
    steps: int
    train_loss: float
    val_loss: float
    best_step: int
    linearizations: int
    rejected: int
    learning_rate: float
    seconds: float
    history: Dict[str, np.ndarray]
    words: str

    def __repr__(self) -> str:
        return self.words

    def plot(self, ax: Any = None) -> Any:
        """The losses by step. Returns matplotlib's axes."""
        from .report import _axes

        ax = _axes(ax)
        for name, label in (("train_loss", "training"), ("val_loss", "validation")):
            if np.isfinite(self.history[name]).any():
                ax.semilogy(self.history["step"], self.history[name], label=label)
        ax.set_xlabel("step")
        ax.set_ylabel("loss")
        ax.legend()
        return ax


def fit(
    model: Any,
    x: Any,
    y: Any,
    *,
    goal: str = "fit",
    method: Optional[str] = None,
    x_val: Any = None,
    y_val: Any = None,
    sample_weight: Any = None,
    output_weight: Any = None,
    callback: Optional[Callable[[Dict[str, Any]], Any]] = None,
    progress: Optional[bool] = None,
    refit: bool = True,
    params: Optional[Params] = None,
    seed: int = 1,
    **settings: Any,
) -> FitResult:
    """Trains a module in place, to the end.

    goal      "fit": the training samples, as well as they can be (method "guarded"); "predict": new samples. Then a fifth of the rows (or x_val, y_val)
              is held out, a path of falling decay (method "path") ends where they are predicted best, and with refit the walk is taken again on all
              rows, to that point.
    method    "guarded", "path", "cdt", "gd", "gd-matched", "adam", "momentum" or "lbfgs"
    callback  called after each step with its row of the history, a dict; a true answer ends the training
    progress  a bar (tqdm, if installed); default: where a terminal or a notebook is
    settings  loss ("mse"), steps, stop_loss, patience, plateau, max_seconds, lr, p, q, shape, batch_size, weight_decay, schedule, relinearize, memory,
              as `cdt train --help` explains them

    Ctrl-C ends the training: the module then has the parameters of the last step that was kept, and the outcome is "interrupted".

    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    >>> x = torch.linspace(-1, 1, 40).unsqueeze(1)
    >>> result = fit(model, x, torch.sin(3 * x), stop_loss=1e-6)
    >>> result.outcome, result.train_loss <= 1e-6
    ('target', True)
    """
    if goal not in ("fit", "predict"):
        raise ValueError(f'goal must be "fit" or "predict", not {goal!r}')
    made = as_model(model, params)
    x, y = as_tensor(x, made), as_tensor(y, made, "y")
    val = [None if values is None else as_tensor(values, made, name) for name, values in (("x_val", x_val), ("y_val", y_val))]
    weights = [None if w is None else as_tensor(w, made, name).double() for name, w in (("sample_weight", sample_weight), ("output_weight", output_weight))]
    method = method or ("guarded" if goal == "fit" else "path")
    if goal == "fit":
        options = train_options(method=method, seed=seed, **settings)
        return _run(_core.Trainer(made, x, y, *val, *weights, options, None), options, callback, progress)

    settings.setdefault("patience", _PATIENCE)
    settings.setdefault("steps", _MOST_POINTS)
    options = train_options(method=method, seed=seed, **settings)
    train_rows: Optional[torch.Tensor] = None
    held = val
    if val[0] is None:
        if len(x) < 5:
            raise ValueError(f'goal="predict" holds a fifth of the rows out, and there are only {len(x)}; give x_val and y_val')
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).to(x.device)
        count = max(1, round(len(x) * _HELD_OUT))
        train_rows = order[count:]
        held = [x[order[:count]], y[order[:count]]]
    part = [x, y] if train_rows is None else [x[train_rows], y[train_rows]]
    part_weights = [weights[0] if weights[0] is None or train_rows is None else weights[0][train_rows], weights[1]]
    start = [p.detach().clone() for p in made.parameters]
    result = _run(_core.Trainer(made, *part, *held, *part_weights, options, None), options, callback, progress)
    if train_rows is None or not refit or result.outcome == "interrupted" or result.best_step < 1:
        return result
    chosen = [p.detach().clone() for p in made.parameters]
    with torch.no_grad():
        for parameter, value in zip(made.parameters, start):
            parameter.copy_(value)
    settings.update(steps=result.best_step, patience=0)
    options = train_options(method=method, seed=seed, **settings)
    again = _run(_core.Trainer(made, x, y, None, None, *weights, options, None), options, None, progress)
    if again.outcome in ("interrupted", "diverged"):  # the walk that was judged is the one to keep, then
        with torch.no_grad():
            for parameter, value in zip(made.parameters, chosen):
                parameter.copy_(value)
        return result
    result.train_loss = again.train_loss
    result.seconds += again.seconds
    result.linearizations += again.linearizations
    return result


def _run(trainer: _core.Trainer, options: _core.TrainOptions, callback: Optional[Callable[..., Any]], progress: Optional[bool]) -> FitResult:
    bar = _bar(options.steps) if progress or (progress is None and _watched()) else None

    def on_step(row: Dict[str, Any]) -> bool:
        if bar is not None:
            bar.set_postfix(loss=f"{row['train_loss']:.3g}", refresh=False)
            bar.update()
        return bool(callback(row)) if callback is not None else False

    try:
        found = trainer.run(on_step, False)
    except KeyboardInterrupt:
        found = trainer.run(None, True)
    finally:
        if bar is not None:
            bar.close()
    return FitResult(
        found.outcome, found.steps, found.train_loss, found.val_loss, found.best_step, found.linearizations, found.rejected,
        found.learning_rate, found.seconds, _columns(found.history), found.in_words(),
    )  # fmt: skip


def _columns(rows: List[Dict[str, Any]]) -> Dict[str, np.ndarray]:
    names = list(rows[0]) if rows else ["step", "train_loss", "val_loss"]
    return {name: np.array([row[name] for row in rows]) for name in names}


def _watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


def _bar(steps: int) -> Any:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return None
    return tqdm(total=steps, unit="step", leave=False)
