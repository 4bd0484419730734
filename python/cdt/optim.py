"""Optimizers for PyTorch loops that need no learning rate."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from . import _core
from ._model import Params, as_model, as_tensor, bytes_of, require_movable, require_same_parameters, weakly
from .training import train_options

_FORMAT = "cdt-guarded-1"
_NO_LIMIT = 10**15


class Guarded:
    """Guarded controlled descent: trust-region steps in output space, each checked before it is accepted.

    loss = opt.step(x, y) takes one step on these samples, all or a mini-batch, and returns the loss before it. No learning rate
    is needed; with a quadratic loss no step raises the loss of its samples. Samples other than those of the last step require a
    new linearization, that is a kernel, whose time grows with the square to cube of samples × outputs.

    For your own sum of squares, such as a physics-informed network, use loss = opt.step(closure): the closure takes no
    arguments and returns the residuals, of any shape, with their graph; their mean square (loss="mse") is minimised.

    model         a module, or a function (params, x) -> y with params=
    loss          "mse" (as in PyTorch), "half-mse", "sse", or "cross-entropy" of logits and class numbers or distributions
    lr            a fixed rate, if the default one is too large for noisy mini-batches
    p, q          weights of the controller on label augments and on errors
    weight_decay  adds ½·weight_decay·‖θ‖² to the loss
    memory        bytes for the kernel, or for the Jacobian of residuals

    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    >>> x = torch.linspace(-1, 1, 40).unsqueeze(1); y = torch.sin(3 * x)
    >>> opt = Guarded(model)
    >>> losses = [opt.step(x, y).item() for _ in range(20)]
    >>> losses[-1] < 1e-5 < losses[0]
    True
    """

    def __init__(
        self,
        model: Any,
        loss: str = "mse",
        *,
        lr: Optional[float] = None,
        p: float = 0.1,
        q: float = 1.0,
        weight_decay: float = 0.0,
        smoothing: Optional[float] = None,
        params: Optional[Params] = None,
        memory: int = 2 << 30,
    ) -> None:
        self._model = as_model(model, params)
        require_movable(self._model)
        self._settings: Dict[str, Any] = dict(
            loss=loss, lr=lr, p=p, q=q, weight_decay=weight_decay, smoothing=smoothing, memory=bytes_of(memory)
        )
        self._options = train_options(method="guarded", steps=_NO_LIMIT, **self._settings)
        self._options.require_valid()
        self._trainer: Optional[_core.Trainer] = None
        self._data: Tuple[Any, ...] = ()  # data of the trainer
        self._row: Optional[_Row] = None
        self._saved: Optional[Dict[str, Any]] = None
        self.steps = 0
        self.outcome: Optional[str] = None

    @property
    def params(self) -> List[torch.Tensor]:
        """The parameters that it trains."""
        return self._model.parameters

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears .grad of the parameters, as other optimizers do; steps neither read nor write it."""
        for parameter in self.params:
            parameter.grad = None if set_to_none or parameter.grad is None else torch.zeros_like(parameter)

    def step(self, x: Any, y: Any = None) -> torch.Tensor:
        """Takes one step on the samples x, y, or on the residuals of a closure. Returns the loss before it, without a graph.

        If no step was taken, `outcome` says why: "floor" (only rounding, and error that cannot be fitted, is left), "stuck", or
        "diverged" (non-finite outputs or parameters); otherwise it is None.
        """
        require_same_parameters(self._model)
        require_movable(self._model)
        if y is None and callable(x):
            trainer = self._of_residuals(x)
        elif y is None:
            raise ValueError("step takes the samples x and y, or a function that returns residuals")
        else:
            trainer = self._of_samples(as_tensor(x, self._model), as_tensor(y, self._model, "y"))
        try:
            record, self.outcome = trainer.step()
        except BaseException:
            self._forget()  # the state after an incomplete step is undefined
            raise
        self.steps += self.outcome is None
        return torch.tensor(record["train_loss"], dtype=torch.float64)

    def _forget(self) -> None:
        self._trainer = None
        self._row = None
        self._data = ()

    def _of_samples(self, x: torch.Tensor, y: torch.Tensor) -> _core.Trainer:
        """The trainer of these samples; reuses the last one if they are the same. It detects changes of the model itself."""
        if self._trainer is not None and len(self._data) == 2:
            if all(_equal(mine, theirs) for mine, theirs in zip(self._data, (x, y))):
                return self._trainer
        x, y = x.detach().clone(), y.detach().clone()  # private copies
        trainer = _core.Trainer(self._model, x, y, None, None, None, None, self._options, None)
        self._restore(trainer, _core.checksum(x) + _core.checksum(y))
        self._trainer, self._data, self._row = trainer, (x, y), None
        return trainer

    def _of_residuals(self, closure: Callable[[], torch.Tensor]) -> _core.Trainer:
        """The trainer of residuals, which are the outputs of one sample with zero labels."""
        first = self.params[0]
        # Always evaluated, since the closure may have drawn other points. The trainer's first pass uses these residuals.
        residuals = _Residuals(closure, self._model)
        if self._trainer is not None and self._row is not None and len(self._data) == 1 and self._data[0] == residuals.count:
            self._row.residuals = residuals
            self._trainer.look_again()
            return self._trainer
        count = residuals.count
        self._row = _Row(residuals)
        model = _core.Model(weakly(self._row), self.params)
        one = first.new_ones(1, requires_grad=False)
        zeros = first.new_zeros(1, count, requires_grad=False)
        trainer = _core.Trainer(model, one, zeros, None, None, None, None, self._options, self._settings["memory"])
        self._restore(trainer, f"residuals {count}")
        self._trainer, self._data = trainer, (count,)
        return trainer

    def _restore(self, trainer: _core.Trainer, data: str) -> None:
        """Restores the loaded state if it belongs to these samples and parameters."""
        saved, self._saved = self._saved, None
        if saved is None or saved["data"] != data:
            return
        kept = [saved["tensors"][f"parameters.{i}"] for i in range(len(self.params))]
        if all(torch.equal(mine.detach().cpu(), theirs.cpu()) for mine, theirs in zip(self.params, kept)):
            trainer.restore(saved["tensors"], saved["metadata"])

    def state_dict(self) -> Dict[str, Any]:
        """Settings, linearization with its rate, and counters, for torch.save. Save the model's own state as well."""
        state: Dict[str, Any] = {"format": _FORMAT, "settings": dict(self._settings), "steps": self.steps, "linearization": self._saved}
        if self._trainer is not None:
            tensors, metadata = self._trainer.checkpoint()
            x, *rest = self._data
            data = f"residuals {x}" if not rest else _core.checksum(x) + _core.checksum(rest[0])
            state["linearization"] = {"tensors": tensors, "metadata": metadata, "data": data}
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Loads a state_dict. With the model's state loaded too, and the same samples, steps continue with bitwise the same results."""
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise ValueError(f"expected the state_dict of a cdt.optim.Guarded ({_FORMAT})")
        options = train_options(method="guarded", steps=_NO_LIMIT, **state["settings"])
        options.require_valid()
        tensors = (state["linearization"] or {"tensors": {}})["tensors"]
        shapes = [tuple(tensors[f"parameters.{i}"].shape) for i in range(len(tensors)) if f"parameters.{i}" in tensors]
        if shapes and shapes != [tuple(p.shape) for p in self.params]:
            raise ValueError("the state belongs to another model: its parameters have other shapes")
        self._settings, self._options, self.steps = dict(state["settings"]), options, state["steps"]
        self._forget()
        self._saved = state["linearization"]

    def __repr__(self) -> str:
        return f"cdt.optim.Guarded(loss={self._settings['loss']!r}, steps={self.steps})"


class _Residuals:
    """Residuals of a closure in one step. The first evaluation is checked and done before the trainer requests it."""

    def __init__(self, closure: Callable[[], torch.Tensor], model: _core.Model) -> None:
        self._closure = closure
        self._model = model
        with torch.enable_grad():
            self._first: Optional[torch.Tensor] = _checked(_core.watch(model, closure))
        require_same_parameters(model)
        self.count = self._first.numel()

    def row(self) -> torch.Tensor:
        residuals, self._first = self._first, None
        if residuals is None:
            with torch.enable_grad():
                residuals = _checked(self._closure())
            require_same_parameters(self._model)
            require_movable(self._model)
        if residuals.numel() != self.count:
            raise ValueError(
                f"the closure returned {residuals.numel()} residuals, after {self.count} in the same step: it may draw other points for each step, "
                "not while a step is tried. Choose them before step(closure)"
            )
        return residuals.reshape(1, -1)


class _Row:
    """The model of a trainer whose closure changes from step to step."""

    def __init__(self, residuals: _Residuals) -> None:
        self.residuals = residuals

    def __call__(self, _: torch.Tensor) -> torch.Tensor:
        return self.residuals.row()


def _checked(residuals: Any) -> torch.Tensor:
    if not isinstance(residuals, torch.Tensor):
        raise ValueError(f"the closure must return the residuals as one tensor, but returned {type(residuals).__name__}; torch.cat joins them")
    if residuals.dim() == 0:
        raise ValueError("the closure must return the residuals, whose mean square is the loss, not the loss itself; one residual alone is residual.reshape(1)")
    if residuals.numel() == 0:
        raise ValueError(f"the closure returned no residuals, a tensor of shape {list(residuals.shape)}; does a mask or a slice in it select nothing?")
    if residuals.is_complex():
        raise ValueError(f"the closure returned complex residuals ({residuals.dtype}); torch.view_as_real makes two real ones of each")
    if not residuals.requires_grad:
        raise ValueError("the closure returned residuals without a graph: they depend on no parameter; are they detached, or computed under no_grad?")
    return residuals


def _equal(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    return mine.dtype == theirs.dtype and mine.device == theirs.device and torch.equal(mine, theirs)
