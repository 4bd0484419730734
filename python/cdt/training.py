"""Complete training of your own module."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import torch

from . import _core
from ._model import Params, as_model, as_tensor, if_given, number, require_movable, require_same_parameters, spelled, whole
from ._sealed import Sealed

# goal="predict": number of points without a lower held-out loss after which a path ends, and the maximum number of points.
_PATIENCE = 5
_MOST_POINTS = 40


def train_options(**settings: Any) -> _core.TrainOptions:
    """Options of the library; a setting of None keeps the default."""
    options = _core.TrainOptions()
    if settings.get("decay") is not None and settings.get("schedule") is None:
        settings["schedule"] = "inverse"  # as in the program
    known = {name for name in dir(options) if not name.startswith("_") and name not in ("require_valid", "unread")}
    for name, value in settings.items():
        if name not in known:
            raise TypeError(f"unknown setting {name!r}; there are {', '.join(sorted(known))}")
        if value is not None:
            try:
                setattr(options, name, _like(getattr(options, name), value, name))
            except TypeError:
                raise ValueError(f"{name} must be {_permitted(name, getattr(options, name))}, got {value!r}") from None
    return options


def _permitted(name: str, default: Any) -> str:
    """The allowed values of a setting, in words."""
    if name == "seed":
        return "a whole number from 0 to 2⁶⁴ − 1"
    if name == "relinearize":
        return '"never", "every:N", "kc", "error:TOL" or "guard"'
    if isinstance(default, bool):
        return "True or False"
    if isinstance(default, int):
        return "a whole number from 0 to 2⁶³ − 1"
    return "a number above 0" if name in ("lr", "p", "q") else "a number, 0 or above"


# Settings with another name in the program.
_TABLE_NAMES = {"batch_size": "batch", "period": "decay-period"}


def _require_read(options: _core.TrainOptions, given: Dict[str, Any]) -> None:
    """Raises ValueError for a setting that this method does not use."""
    if given.get("reshuffle") and not given.get("batch_size"):
        raise ValueError("reshuffle needs batches (batch_size); each step takes all samples, so it would do nothing")
    names = {_TABLE_NAMES.get(name, name.replace("_", "-")): name for name, value in given.items() if value is not None}
    unread = options.unread(list(names))
    if unread is None:
        return
    name, needs, methods = unread
    if needs:
        raise ValueError(f"{names[name]} would do nothing here: it needs {needs}")
    readers = ", ".join(f'"{method}"' for method in methods)
    raise ValueError(f'method "{options.method}" does not read {names[name]}; leave it out, or choose one that does: {readers}')


def _like(default: Any, value: Any, name: str) -> Any:
    """Converts a setting to the library's type."""
    if name == "loss" and callable(value) and not isinstance(value, torch.nn.Module):
        return value
    if name in ("loss", "method", "schedule", "controller"):
        return spelled(value)
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(default, bool):
        return bool(whole(value, name))
    if isinstance(default, int):
        return whole(value, name)
    return value if name == "relinearize" else number(value, name)


@dataclass
class FitResult(Sealed):
    """Result of a training. `history` has one entry per step, as arrays by name."""

    outcome: str
    steps: int
    train_loss: float
    val_loss: float
    best_step: int
    linearizations: int
    rejected: int
    learning_rate: float
    seconds: float
    history: Dict[str, "np.ndarray[Any, Any]"]
    words: str

    def __repr__(self) -> str:
        return self.words

    def plot(self, ax: Any = None) -> Any:
        """Plots the losses by step. Returns matplotlib axes."""
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
    refit: Optional[bool] = None,
    params: Optional[Params] = None,
    seed: int = 1,
    **settings: Any,
) -> FitResult:
    """Trains a module in place, to the end.

    goal      "fit": fit the training samples as well as possible (method "guarded"). "predict": predict new samples. A fifth of
              the rows (or x_val, y_val) is held out (equal rows together), a path of decreasing decay (method "path") ends where
              they are predicted best, and with refit the path is repeated on all rows, to that point.
    method    "guarded", "path", "cdt", "gd", "gd-matched", "adam", "momentum" or "lbfgs"
    callback  called after each step with its row of the history, a dict. The losses are those before the step, while the module
              already has the parameters after it; their losses come with the next row. The last row has no step. If it returns
              true, training ends (outcome "stopped"; with goal="predict" without the refit)
    progress  show a bar (tqdm, if installed); default: in a terminal or a notebook
    settings  loss ("mse"; or a function of outputs and targets that returns a value ≥ 0 per sample, whose mean is minimised),
              steps, stop_loss, patience, plateau, max_seconds, lr, p, q, controller, shape, batch_size, weight_decay, schedule, relinearize,
              memory, as in `cdt train --help`. A setting that the method does not use raises ValueError

    Ctrl-C ends the training: the module then has the parameters of the last accepted step, and the outcome is "interrupted".

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
    require_movable(made)
    data = (as_tensor(x, made), as_tensor(y, made, "y"))
    held = (if_given(x_val, made, "x_val"), if_given(y_val, made, "y_val"))
    weights = (if_given(sample_weight, made, "sample_weight"), if_given(output_weight, made, "output_weight"))
    if refit is not None and (goal == "fit" or x_val is not None):
        raise ValueError('refit is for goal="predict" without x_val: with held-out rows of its own the training rows are all that is learned from')
    given = settings
    settings = {"method": "guarded" if goal == "fit" else "path", "seed": whole(seed, "seed"), **settings}
    if method is not None:
        settings["method"] = method
    _require_read(train_options(**settings), given)
    if goal == "predict":
        settings = {"patience": _PATIENCE, "steps": _MOST_POINTS, **settings}
    options = train_options(**settings)
    options.require_targets(data[1])  # before rows are held out, so that messages have the caller's row numbers
    shown = progress or (progress is None and _watched())
    bar, bar_of_refit = _Bar(options.steps, shown), _Bar(None, shown)

    def on_step(row: Dict[str, Any]) -> bool:
        bar(row)
        if callback is None:
            return False
        answer = bool(callback(row))
        require_same_parameters(made, "the training began", "Call cdt.fit anew, after the change")
        require_movable(made)
        return answer

    trainer: Any
    see: Tuple[Any, ...] = (on_step,)
    if goal == "fit" or x_val is not None:
        trainer = _core.Trainer(made, *data, *held, *weights, options, None)
    else:
        trainer = _core.HeldOutTrainer(made, *data, *weights, options, refit is not False)
        see = (on_step, bar_of_refit)
    try:
        found = trainer.run(False, callback is not None, *see)
    except KeyboardInterrupt:
        found = trainer.run(True, False, *(None for _ in see))
    finally:
        bar.close()
        bar_of_refit.close()
    return FitResult(
        found.outcome, found.steps, found.train_loss, found.val_loss, found.best_step, found.linearizations, found.rejected,
        found.learning_rate, found.seconds, _columns(found.history), found.in_words(),
    )  # fmt: skip


def _columns(rows: List[Dict[str, Any]]) -> Dict[str, "np.ndarray[Any, Any]"]:
    names = list(rows[0]) if rows else ["step", "train_loss", "val_loss"]
    return {name: np.array([row[name] for row in rows]) for name in names}


def _watched() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class _Bar:
    """A progress bar (tqdm, if installed), shown from the first row on."""

    def __init__(self, steps: Optional[int], shown: bool) -> None:
        self.steps, self.shown = steps, shown
        self.bar: Any = None

    def __call__(self, row: Dict[str, Any]) -> None:
        if self.shown and self.bar is None:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped,import-not-found,unused-ignore]
            except ImportError:
                self.shown = False
                return
            self.bar = tqdm(total=self.steps, unit="step", leave=False)
        if self.bar is not None:
            self.bar.set_postfix(loss=f"{row['train_loss']:.3g}", refresh=False)
            self.bar.update()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
