"""The whole training loop, on your own module."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import torch

from . import _core
from ._model import Params, as_model, as_tensor, if_given, number, require_movable, require_same_parameters, spelled, whole
from ._sealed import Sealed

# Of goal="predict": the share of rows held out, and the points without a lower loss of theirs after which a path ends.
_HELD_OUT = 0.2
_PATIENCE = 5
_MOST_POINTS = 40


def train_options(**settings: Any) -> _core.TrainOptions:
    """The library's options; None leaves its default."""
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
    """Which values a setting takes, in words."""
    if name == "seed":
        return "a whole number from 0 to 2⁶⁴ − 1"
    if name == "relinearize":
        return '"never", "every:N", "kc", "error:TOL" or "guard"'
    if isinstance(default, bool):
        return "True or False"
    if isinstance(default, int):
        return "a whole number from 0 to 2⁶³ − 1"
    return "a number above 0" if name in ("lr", "p", "q") else "a number, 0 or above"


# Settings whose names are others in the program.
_TABLE_NAMES = {"batch_size": "batch", "period": "decay-period"}


def _require_read(options: _core.TrainOptions, given: Dict[str, Any]) -> None:
    """Refuses a setting that training by this method would not read."""
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
    """A setting in the type that the library keeps it in."""
    if name == "loss" and callable(value) and not isinstance(value, torch.nn.Module):
        return value
    if name in ("loss", "method", "schedule"):
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
    history: Dict[str, "np.ndarray[Any, Any]"]
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
    refit: Optional[bool] = None,
    params: Optional[Params] = None,
    seed: int = 1,
    **settings: Any,
) -> FitResult:
    """Trains a module in place, to the end.

    goal      "fit": the training samples, as well as they can be (method "guarded"); "predict": new samples. Then a fifth of the rows (or x_val, y_val)
              is held out (equal rows together), a path of falling decay (method "path") ends where they are predicted best, and with refit the walk is taken again on all
              rows, to that point.
    method    "guarded", "path", "cdt", "gd", "gd-matched", "adam", "momentum" or "lbfgs"
    callback  called after each step with its row of the history, a dict: losses of the parameters that the step began with, while the module is that step
              further; its own losses come with the next row, and in the last one no step starts. A true answer ends the training (outcome "stopped"; of
              goal="predict" without the walk on all rows)
    progress  a bar (tqdm, if installed); default: where a terminal or a notebook is
    settings  loss ("mse"; or a function of outputs and targets that gives a value for each sample, 0 or above: training lowers their mean), steps, stop_loss, patience, plateau, max_seconds, lr, p, q, shape, batch_size, weight_decay, schedule, relinearize, memory,
              as `cdt train --help` explains them; one that the method would not read is refused

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
    require_movable(made)
    samples = _Samples(
        as_tensor(x, made),
        as_tensor(y, made, "y"),
        if_given(x_val, made, "x_val"),
        if_given(y_val, made, "y_val"),
        if_given(sample_weight, made, "sample_weight"),
        if_given(output_weight, made, "output_weight"),
    )
    if refit is not None and (goal == "fit" or x_val is not None):
        raise ValueError('refit is for goal="predict" without x_val: with held-out rows of its own the training rows are all that is learned from')
    given = settings
    settings = {"method": "guarded" if goal == "fit" else "path", "seed": whole(seed, "seed"), **settings}
    if method is not None:
        settings["method"] = method
    options = train_options(**settings)
    _require_read(options, given)
    options.require_targets(samples.y)  # before rows are held out: messages know the caller's rows
    if goal == "fit":
        return _run(made, samples, settings, callback, progress)
    return _fit_to_predict(made, samples, {"patience": _PATIENCE, "steps": _MOST_POINTS, **settings}, callback, progress, refit is not False)


@dataclass
class _Samples:
    x: torch.Tensor
    y: torch.Tensor
    x_val: Optional[torch.Tensor]
    y_val: Optional[torch.Tensor]
    sample_weight: Optional[torch.Tensor]
    output_weight: Optional[torch.Tensor]

    def hold_out(self, seed: int) -> _Samples:
        """A random fifth of the rows as validation samples."""
        if len(self.x) < 5:
            raise ValueError(f'goal="predict" holds a fifth of the rows out, and there are only {len(self.x)}; give x_val and y_val')
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(seed)).to(self.x.device)
        count = max(1, round(len(self.x) * _HELD_OUT))
        held, kept = _apart(self.x, order, count)
        weight = None if self.sample_weight is None else self.sample_weight[kept]
        return _Samples(self.x[kept], self.y[kept], self.x[held], self.y[held], weight, self.output_weight)


def _apart(x: torch.Tensor, order: torch.Tensor, count: int) -> Tuple[torch.Tensor, torch.Tensor]:
    """The first `count` rows in this order, and the others. Rows that are equal stay on one side: with the first of them."""
    _, which = torch.unique(x.reshape(len(x), -1), dim=0, return_inverse=True)
    sizes = torch.bincount(which)
    if len(sizes) == len(x):
        return order[:count], order[count:]
    if len(sizes) < 2:
        raise ValueError(f'goal="predict" holds rows out, and all {len(x)} are equal; give x_val and y_val')
    first = which[order].sort(stable=True).indices[sizes.cumsum(0) - sizes]  # the place of the first of each
    by_place = first.argsort()
    before = sizes[by_place].cumsum(0) - sizes[by_place]  # rows of those that come earlier
    held = torch.zeros_like(sizes, dtype=torch.bool)
    held[by_place] = before < count
    if held.all():
        held[by_place[-1]] = False
    return order[held[which[order]]], order[~held[which[order]]]


def _fit_to_predict(
    model: _core.Model,
    samples: _Samples,
    settings: Dict[str, Any],
    callback: Optional[Callable[..., Any]],
    progress: Optional[bool],
    refit: bool,
) -> FitResult:
    if samples.x_val is not None:
        return _run(model, samples, settings, callback, progress)
    start = [p.detach().clone() for p in model.parameters]
    result = _run(model, samples.hold_out(settings["seed"]), settings, callback, progress)
    if not refit or result.outcome in ("interrupted", "stopped") or result.best_step < 1:
        return result
    judged = [p.detach().clone() for p in model.parameters]
    _put(model, start)
    again = _run(model, samples, {**settings, "steps": result.best_step, "patience": 0}, None, progress)
    if again.outcome in ("interrupted", "diverged"):
        _put(model, judged)
        return result
    return replace(
        result, train_loss=again.train_loss, seconds=result.seconds + again.seconds, linearizations=result.linearizations + again.linearizations
    )


def _put(model: _core.Model, values: List[torch.Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(model.parameters, values):
            parameter.copy_(value)


def _run(
    model: _core.Model, samples: _Samples, settings: Dict[str, Any], callback: Optional[Callable[..., Any]], progress: Optional[bool]
) -> FitResult:
    options = train_options(**settings)
    trainer = _core.Trainer(
        model, samples.x, samples.y, samples.x_val, samples.y_val, samples.sample_weight, samples.output_weight, options, None
    )
    bar = _bar(options.steps) if progress or (progress is None and _watched()) else None

    def on_step(row: Dict[str, Any]) -> bool:
        if bar is not None:
            bar.set_postfix(loss=f"{row['train_loss']:.3g}", refresh=False)
            bar.update()
        if callback is None:
            return False
        answer = bool(callback(row))
        require_same_parameters(model, "the training began", "Call cdt.fit anew, after the change")
        require_movable(model)
        return answer

    try:
        found = trainer.run(on_step, False, callback is not None)
    except KeyboardInterrupt:
        found = trainer.run(None, True, False)
    finally:
        if bar is not None:
            bar.close()
    return FitResult(
        found.outcome, found.steps, found.train_loss, found.val_loss, found.best_step, found.linearizations, found.rejected,
        found.learning_rate, found.seconds, _columns(found.history), found.in_words(),
    )  # fmt: skip


def _columns(rows: List[Dict[str, Any]]) -> Dict[str, "np.ndarray[Any, Any]"]:
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
