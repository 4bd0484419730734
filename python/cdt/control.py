"""Controllers for your own training loops, Riccati equations, forecasts."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch

from . import _core
from ._model import Params, as_model, as_tensor, bytes_of, if_given_wide, number, numbers, positive, require_same_parameters, spelled, whole
from ._sealed import Sealed
from .report import Report, _axes, analyze

_LOSSES = ("mse", "half-mse", "sse", "cross-entropy")


class Controller:
    """Steers the labels of a training loop so that the loop is stable at any learning rate, and slow modes learn faster.

    One line of the loop changes: the loss compares y_hat with controller.augment(y_hat) instead of y.

    model, x, y    the model and all training samples: the controller acts on all outputs at once
    lr             the learning rate of the loop (plain gradient descent: torch.optim.SGD without momentum)
    p, q           weights on label augments and on errors; slow modes learn √(1 + q/p) times faster. For the cross entropy
                   errors are weighted as the loss weights them near its minimum, as in `cdt train`
    loss           loss of the loop: "mse" (F.mse_loss), "half-mse", "sse", or "cross-entropy" (F.cross_entropy on logits)
    Q, R           general weights [n, n], or diagonals [n], instead of qI and pI
    design         "lqr", the paper's; "damped", as guarded steps; or "descent", which asks nothing of the labels
    gain           your own gain K [n, n] instead: labels become y − K(y_hat − y)
    law            your own function instead, from errors e [n], float64, to label augments: law=lambda e: -0.5 * e
    smoothing      cross entropy: steers logits to softmax values of (1 − smoothing)·label + smoothing/classes; default: 0.1
    refresh_above  redesign the controller in augment when `drift` exceeds this, since training changes the kernel. Default:
                   0.5 for the cross entropy, whose design does not last; otherwise only on refresh(). math.inf: never

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
        gain: Any = None,
        law: Optional[Callable[[torch.Tensor], torch.Tensor]] = None,
        smoothing: Optional[float] = None,
        refresh_above: Optional[float] = None,
        params: Optional[Params] = None,
        memory: Optional[int] = None,
        design: str = "lqr",
    ) -> None:
        refresh_above = None if refresh_above is None else number(refresh_above, "refresh_above")
        if refresh_above is not None and not refresh_above >= 0:
            raise ValueError(f"refresh_above must be 0 or more, or None, got {refresh_above!r}")
        self._model = as_model(model, params)
        self._x = as_tensor(x, self._model)
        self._y = as_tensor(y, self._model, "y")
        loss = spelled(loss)
        if loss not in _LOSSES:
            raise ValueError(f"loss must be one of {', '.join(_LOSSES)}, which the controller knows how to steer, got {loss!r}")
        self._p, self._q, self._loss, self._memory = positive(p, "p"), number(q, "q"), loss, bytes_of(memory)
        self._smoothing = None if smoothing is None else number(smoothing, "smoothing")
        weights = if_given_wide(Q, "Q"), if_given_wide(R, "R"), if_given_wide(gain, "gain")
        if gain is not None and law is not None:
            raise ValueError("a controller has a gain or a law, not both")
        if law is not None and not callable(law):
            raise ValueError(f"law must be a function of the errors, got a {type(law).__name__}")
        self._controller = _core.ModelController(
            self._model, self._x, self._y, loss, positive(lr, "lr"), self._p, self._q, *weights, law, self._smoothing, refresh_above, self._memory, spelled(design)
        )
        self._design = spelled(design)

    def refresh(self) -> None:
        """Redesigns the controller for the kernel at the current parameters, which training changes."""
        self._require_same()
        self._controller.refresh()

    def _require_same(self) -> None:
        require_same_parameters(self._model, "the controller was made", "Make the controller anew")

    def augment(self, y_hat: torch.Tensor) -> torch.Tensor:
        """Returns the labels for this step, detached. y_hat are the model's outputs on all of x; labels have its shape."""
        if not isinstance(y_hat, torch.Tensor):
            raise ValueError(f"augment takes the model's outputs on all of x, a tensor, got a {type(y_hat).__name__}")
        self._require_same()
        labels = self._controller.augment(y_hat)
        if self._controller.warning:
            warnings.warn(self._controller.warning, stacklevel=2)
        return labels

    @property
    def lr(self) -> float:
        """The learning rate of the loop. Set it when a schedule changes the rate; this redesigns the controller."""
        return self._controller.lr

    @lr.setter
    def lr(self, lr: float) -> None:
        self._require_same()
        self._controller.set_lr(positive(lr, "lr"))

    @property
    def refreshes(self) -> int:
        """Number of redesigns of the controller."""
        return self._controller.refreshes

    @property
    def drift(self) -> Optional[float]:
        """Distance of the outputs at the last augment from those that the design predicted for the preceding step, relative
        to the length of that step. Small: the design holds; near 1 or above: refresh. None before the second augment. Steps
        of an optimizer other than gradient descent at this rate count as drift; rounding of the outputs, which dominates at
        a minimum, does not."""
        return self._controller.drift

    @property
    def gain(self) -> torch.Tensor:
        """K [n, n], float64: labels become y − K(y_hat − y). For the cross entropy H + K, in C − 1 coordinates per sample."""
        return self._controller.gain

    @property
    def closed_loop_radius(self) -> float:
        """The factor by which the slowest mode shrinks per step; below 1."""
        return self._controller.closed_loop_radius

    @property
    def certificate(self) -> Dict[str, Any]:
        """Guarantees of the current controller: its type (`controller`) and what it minimises (`makes_least`),
        closed_loop_radius, riccati_residual; kernel_margin and overshoot_margin, the factors by which the kernel may grow
        before the loop is unstable or an error changes sign; gain_margin, the range of factors on label augments for which
        it is stable; and a digest of its numbers. A pair gives bounds on a number; None: unknown."""
        return self._controller.certificate

    @property
    def kernel(self) -> torch.Tensor:
        """The kernel [n, n] of the design."""
        return self._controller.kernel

    @property
    def report(self) -> Report:
        """The pre-flight report of the model at its current parameters and this learning rate."""
        self._require_same()
        return analyze(self._model, self._x, self._y, lr=self.lr, loss=self._loss, p=self._p, q=self._q, smoothing=self._smoothing, memory=self._memory, controller=self._design)

    def __repr__(self) -> str:
        drift = "" if self.drift is None else f", drift {self.drift:.3g}"
        return (
            f"cdt.Controller of {len(self._x)} samples, loss {self._loss}, lr {self.lr:g}: closed-loop radius {self.closed_loop_radius:.6g}, "
            f"{self.refreshes} refreshes{drift}"
        )


def dare(A: Any, B: Any, Q: Any, R: Any, *, augmented: bool = False) -> _core.RiccatiSolution:
    """Solves the discrete Riccati equation P = Q + AᵀPA − AᵀPB(R + BᵀPB)⁻¹BᵀPA, in float64.

    The solution has P, K (the input is −K x), relative_residual, closed_loop_radius, iterations, and optimal_cost(x), ½xᵀPx.

    Raises ValueError if a mode that does not decay is uncontrollable or has no cost; the message gives its eigenvalue.
    The paper's state [ŷ; 1] has such a mode, at 1: augmented=True takes A = [A₁, a; 0, 1], B = [B₁; 0] and
    Q = [Q₁, −Q₁y; −yᵀQ₁, yᵀQ₁y], and gives the paper's K, P and optimal cost, and the equilibrium, y.

    >>> solution = dare([[1.1]], [[1.0]], [[1.0]], [[1.0]])
    >>> round(solution.P.item(), 6), solution.closed_loop_radius < 1
    (1.773771, True)
    >>> solution = dare([[0.7, 0.6], [0.0, 1.0]], [[0.3], [0.0]], [[1.0, -2.0], [-2.0, 4.0]], [[0.1]], augmented=True)
    >>> round(solution.equilibrium.item(), 6), abs(solution.optimal_cost([2.0, 1.0])) < 1e-12  # at rest at the label
    (2.0, True)
    """
    a, b, q, r = (as_tensor(matrix, None, name).detach().double() for name, matrix in (("A", A), ("B", B), ("Q", Q), ("R", R)))
    return _core.dare(a, b, q, r, augmented)


class Forecast(Sealed):
    """Training and validation curves for many learning rates and weights, computed without training."""

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
        """Plots validation curves of the best candidates of gradient descent and of control. Returns matplotlib axes."""
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
    """Finds the learning rate, p and number of steps with the lowest validation loss by the local model, without training.

    lr, p  candidates; default: 40 rates around the stability limit and 24 weights, a thousand curves

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
