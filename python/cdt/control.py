"""Controllers for other people's training loops, Riccati equations, forecasts."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

from . import _core
from ._model import Params, as_model, as_tensor, bytes_of, if_given_wide, number, numbers, positive, spelled, whole
from ._sealed import Sealed
from .report import Report, _axes, analyze

# Outputs of a deep network differ by rounding up to so many units of their precision.
_ROUNDING = 100
_LOSSES = ("mse", "half-mse", "sse", "cross-entropy")
# A sound loop at a large rate needs a new design every second or third step.
_SUSPECT = 10


class Controller:
    """Steers the labels of a training loop so that the loop is stable at any learning rate, and slow modes learn faster.

    In the loop, one line changes: the loss is taken against controller.augment(y_hat) instead of y.

    model, x, y    the training samples, all of them: the controller acts on all outputs at once
    lr             the learning rate of the loop (plain gradient descent: torch.optim.SGD without momentum)
    p, q           weights on label augments and on errors; slow modes learn √(1 + q/p) times faster. Of the cross entropy errors weigh as the loss does near its
                   minimum, as in `cdt train`
    loss           that of the loop: "mse" (F.mse_loss), "half-mse", "sse", or "cross-entropy" (F.cross_entropy on logits)
    Q, R           general weights [n, n], or diagonals [n], instead of qI and pI
    smoothing      of the cross entropy: logits are steered to where softmax gives (1 − smoothing)·label + smoothing/classes; default: 0.1
    refresh_above  training moves the kernel: augment designs the controller anew where `drift` exceeds this (0.5, say). Default: only refresh() does

    >>> import torch.nn.functional as F
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    >>> x = torch.rand(30, 2); y = x.prod(1, keepdim=True)
    >>> controller = Controller(model, x, y, lr=1.0)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    >>> for step in range(50):
    ...     y_hat = model(x)
    ...     loss = F.mse_loss(y_hat, controller.augment(y_hat))
    ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
    >>> F.mse_loss(model(x), y).item() < 1e-3
    True
    """

    def __init__(
        self,
        model: Any,
        x: Any,
        y: Any,
        *,
        lr: float,
        p: float = 0.1,
        q: float = 1.0,
        loss: str = "mse",
        Q: Any = None,
        R: Any = None,
        smoothing: Optional[float] = None,
        refresh_above: Optional[float] = None,
        params: Optional[Params] = None,
        memory: Optional[int] = None,
    ) -> None:
        refresh_above = None if refresh_above is None else number(refresh_above, "refresh_above")
        if refresh_above is not None and not refresh_above >= 0:
            raise ValueError(f"refresh_above must be 0 or more, or None, but came {refresh_above!r}")
        self._model = as_model(model, params)
        self._x = as_tensor(x, self._model)
        self._y = as_tensor(y, self._model, "y")
        loss = spelled(loss)
        if loss not in _LOSSES:
            raise ValueError(f"loss must be one of {', '.join(_LOSSES)}, which the controller knows how to steer, but came {loss!r}")
        self._labels = _core.prepared_labels(self._model, self._x, self._y, loss)
        self._lr, self._p, self._q, self._loss, self._memory = positive(lr, "lr"), positive(p, "p"), number(q, "q"), loss, bytes_of(memory)
        self._Q, self._R, self._smoothing = if_given_wide(Q, "Q"), if_given_wide(R, "R"), None if smoothing is None else number(smoothing, "smoothing")
        self._refresh_above = refresh_above
        # Of the last two augments: outputs, and of the earlier one labels and kernel.
        self._before: Optional[Tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = None
        self._step: Optional[Tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = None
        self._in_a_row = 0  # steps that needed a new design
        self.refreshes = -1  # the first design is none
        self.refresh()

    def refresh(self) -> None:
        """Designs the controller anew, for the kernel of the parameters as they are now: training moves it."""
        found = _core.ntk(self._model, self._x, None, self._memory, torch.float64, False)
        if found.outputs.shape != self._labels.shape:
            raise ValueError(f"the model's outputs have shape {list(found.outputs.shape)}, the labels {list(self._labels.shape)}")
        single = found.outputs.dtype == torch.float32
        self._theta, self._epsilon = found.theta, torch.finfo(found.outputs.dtype).eps
        self._controller = _core.Controller(
            found.theta, found.outputs.double(), self._labels, self._loss, self._lr, self._p, self._q, self._Q, self._R, self._smoothing, single
        )
        self.refreshes += 1

    def augment(self, y_hat: torch.Tensor) -> torch.Tensor:
        """The labels to train on in this step, detached, shaped like y_hat: the model's outputs on all of x."""
        outputs = self._outputs_of(y_hat)
        self._before, self._step = self._step, (outputs, outputs, self._theta)
        if self._refresh_above is not None:
            drift = self.drift
            off = drift is not None and drift > self._refresh_above
            self._in_a_row = self._in_a_row + 1 if off else 0
            if off:
                self.refresh()
            if self._in_a_row == _SUSPECT:
                warnings.warn(
                    f"each of the last {_SUSPECT} steps went elsewhere than the controller had expected. " + self._is_it_so(), stacklevel=2
                )
        labels = self._controller.augment(y_hat)
        self._step = outputs, labels.double().reshape(outputs.shape), self._theta
        return labels

    def _outputs_of(self, y_hat: torch.Tensor) -> torch.Tensor:
        """[r, n_L] in float64, of what can be outputs on all of x."""
        if not isinstance(y_hat, torch.Tensor):
            raise ValueError(f"augment takes the model's outputs on all of x, a tensor, but a {type(y_hat).__name__} came")
        if y_hat.numel() != self._labels.numel():
            raise ValueError(
                f"augment takes the model's outputs on all of x, {self._labels.numel()} numbers, but {y_hat.numel()} came: the controller acts on all samples "
                "at once (for mini-batches: cdt.optim.Guarded, or cdt.fit with batch_size=)"
            )
        if y_hat.shape[:1] != self._labels.shape[:1]:
            raise ValueError(
                f"augment takes the model's outputs on all of x, of shape {list(self._labels.shape)}, samples along the first dimension, but {list(y_hat.shape)} came"
            )
        if y_hat.is_complex():
            raise ValueError(f"augment takes real outputs, but {y_hat.dtype} came; a model may return torch.view_as_real(outputs)")
        outputs = y_hat.detach().double().reshape(self._labels.shape)
        if not torch.isfinite(outputs).all():
            raise RuntimeError(
                f"the model's outputs are no longer finite: the loop has diverged at lr={self._lr:g} after {self.refreshes} refreshes. " + self._why_lost()
            )
        return outputs

    def _why_lost(self) -> str:
        if self._refresh_above is None:
            return "Training has moved the kernel away from the one that the controller was designed for: refresh_above=0.5 designs it anew in time"
        return self._is_it_so() + " If it is, take a smaller lr"

    def _is_it_so(self) -> str:
        return f"Is the loop plain gradient descent at lr={self._lr:g}, without momentum, on the {self._loss} loss of all of x, its rows in the order of x?"

    @property
    def lr(self) -> float:
        """The learning rate of the loop. Set it where a schedule changes that one: the controller is designed anew."""
        return self._lr

    @lr.setter
    def lr(self, lr: float) -> None:
        self._lr = positive(lr, "lr")
        self._before = self._step = None
        self.refresh()

    @property
    def drift(self) -> Optional[float]:
        """How far the outputs, at the last augment, were from where the design had expected the step before it to bring them: a share of that step's
        length. Small: the design holds; towards 1 and beyond: refresh. None before the second augment. Steps of another optimizer than plain gradient
        descent at this rate count as drift, rounding of the outputs does not: at a minimum it is all that moves them."""
        if self._before is None or self._step is None:
            return None
        (before, labels, theta), outputs = self._before, self._step[0]
        expected = _core.local_step(self._loss, theta, self._lr, before, labels)
        taken = outputs - before
        rounding = _ROUNDING * self._epsilon * torch.linalg.vector_norm(outputs)
        beyond = (torch.linalg.vector_norm(taken - expected) - rounding).clamp_min(0)
        return float(beyond / torch.linalg.vector_norm(taken).clamp_min(torch.finfo(torch.float64).tiny))

    @property
    def gain(self) -> torch.Tensor:
        """K [n, n], float64: labels become y − K(y_hat − y). Of the cross entropy H + K, in coordinates of C − 1 a sample."""
        return self._controller.gain

    @property
    def closed_loop_radius(self) -> float:
        """The factor by which the slowest mode shrinks in a step; below 1."""
        return self._controller.closed_loop_radius

    @property
    def kernel(self) -> torch.Tensor:
        """The kernel that it was designed for, [n, n]."""
        return self._theta

    @property
    def report(self) -> Report:
        """The pre-flight report of the model as it is now, at this learning rate."""
        return analyze(self._model, self._x, self._y, lr=self._lr, loss=self._loss, p=self._p, q=self._q, smoothing=self._smoothing, memory=self._memory)

    def __repr__(self) -> str:
        drift = "" if self.drift is None else f", drift {self.drift:.3g}"
        return (
            f"cdt.Controller of {len(self._x)} samples, loss {self._loss}, lr {self._lr:g}: closed-loop radius {self.closed_loop_radius:.6g}, "
            f"{self.refreshes} refreshes{drift}"
        )


def dare(A: Any, B: Any, Q: Any, R: Any) -> _core.RiccatiSolution:
    """Solves the discrete Riccati equation P = Q + AᵀPA − AᵀPB(R + BᵀPB)⁻¹BᵀPA, in float64.

    The solution has P, K (the input is −K x), relative_residual, closed_loop_radius and iterations.

    >>> solution = dare([[1.1]], [[1.0]], [[1.0]], [[1.0]])
    >>> round(solution.P.item(), 6), solution.closed_loop_radius < 1
    (1.773771, True)
    """
    matrices = [as_tensor(matrix, None, name).detach().double() for name, matrix in (("A", A), ("B", B), ("Q", Q), ("R", R))]
    return _core.dare(*matrices)


class Forecast(Sealed):
    """Training and validation curves of many learning rates and weights, computed instead of trained."""

    def __init__(self, found: _core.Forecast) -> None:
        self.candidates: List[Dict[str, Any]] = found.candidates
        self.steps: List[int] = found.steps
        self.train_loss: torch.Tensor = found.train_loss
        self.val_loss: torch.Tensor = found.val_loss
        self.best: Dict[str, Any] = found.best
        self.best_descent: Optional[Dict[str, Any]] = found.best_descent
        self.best_controlled: Optional[Dict[str, Any]] = found.best_controlled

    def __repr__(self) -> str:
        p = "" if self.best["p"] is None else f", p {self.best['p']:.3g}"
        return f"cdt.Forecast of {len(self.candidates)} candidates: best {self.best['method']} at lr {self.best['lr']:.3g}{p}, validation loss {self.best['val_loss']:.4g} after {self.best['step']} steps"

    def plot(self, ax: Any = None) -> Any:
        """Validation curves of the best candidates of gradient descent and of control. Returns matplotlib's axes."""
        ax = _axes(ax)
        for name, best in (("gradient descent", self.best_descent), ("controlled descent", self.best_controlled)):
            if best is None:
                continue
            row = self.candidates.index({key: best[key] for key in ("method", "lr", "p")})
            ax.loglog(self.steps, self.val_loss[row].cpu(), label=f"{name}, lr {best['lr']:.3g}")
        ax.set_xlabel("steps")
        ax.set_ylabel("validation loss, forecast")
        ax.legend()
        return ax


def forecast(
    model: Any,
    x: Any,
    y: Any,
    x_val: Any,
    y_val: Any,
    *,
    lr: Union[float, Sequence[float], None] = None,
    p: Union[float, Sequence[float], None] = None,
    q: float = 1.0,
    steps: Optional[Sequence[int]] = None,
    decay: float = 0.0,
    loss: str = "mse",
    params: Optional[Params] = None,
    memory: Optional[int] = None,
) -> Forecast:
    """Which learning rate, which p and how many steps do best on the validation samples, by the local model: nothing is trained.

    lr, p  to try; default: 40 rates around the stability limit and 24 weights, a thousand curves

    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    >>> x = torch.rand(30, 2); y = x.prod(1, keepdim=True)
    >>> found = forecast(model, x[:20], y[:20], x[20:], y[20:])
    >>> found.best["val_loss"] < 0.1
    True
    """
    made = as_model(model, params)
    return Forecast(
        _core.forecast(
            made,
            as_tensor(x, made),
            as_tensor(y, made, "y"),
            as_tensor(x_val, made, "x_val"),
            as_tensor(y_val, made, "y_val"),
            spelled(loss),
            numbers(lr, "lr"),
            numbers(p, "p"),
            number(q, "q"),
            [] if steps is None else [whole(step, "steps") for step in steps],
            number(decay, "decay"),
            bytes_of(memory),
        )
    )
