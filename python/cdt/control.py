"""Controllers for other people's training loops, Riccati equations, forecasts."""

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

    In the loop, one line changes: the loss is taken against controller.augment(y_hat) instead of y.

    model, x, y    the training samples, all of them: the controller acts on all outputs at once
    lr             the learning rate of the loop (plain gradient descent: torch.optim.SGD without momentum)
    p, q           weights on label augments and on errors; slow modes learn √(1 + q/p) times faster. Of the cross entropy errors weigh as the loss does near its
                   minimum, as in `cdt train`
    loss           that of the loop: "mse" (F.mse_loss), "half-mse", "sse", or "cross-entropy" (F.cross_entropy on logits)
    Q, R           general weights [n, n], or diagonals [n], instead of qI and pI
    design         "lqr", the paper's; "damped", as guarded steps; or "descent", which asks nothing of the labels
    gain           a gain K [n, n] of your own instead: labels become y − K(y_hat − y)
    law            or a function of the errors e [n], float64, that gives what is added to the labels: law=lambda e: -0.5 * e
    smoothing      of the cross entropy: logits are steered to where softmax gives (1 − smoothing)·label + smoothing/classes; default: 0.1
    refresh_above  training moves the kernel: augment designs the controller anew where `drift` exceeds this. Default: 0.5 for the cross entropy, whose design does
                   not last; else only refresh() does. math.inf: never

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
        """Designs the controller anew, for the kernel of the parameters as they are now: training moves it."""
        self._require_same()
        self._controller.refresh()

    def _require_same(self) -> None:
        require_same_parameters(self._model, "the controller was made", "Make the controller anew")

    def augment(self, y_hat: torch.Tensor) -> torch.Tensor:
        """The labels to train on in this step, detached, shaped like y_hat: the model's outputs on all of x."""
        if not isinstance(y_hat, torch.Tensor):
            raise ValueError(f"augment takes the model's outputs on all of x, a tensor, got a {type(y_hat).__name__}")
        self._require_same()
        labels = self._controller.augment(y_hat)
        if self._controller.warning:
            warnings.warn(self._controller.warning, stacklevel=2)
        return labels

    @property
    def lr(self) -> float:
        """The learning rate of the loop. Set it whenever a schedule changes the rate: the controller is designed anew."""
        return self._controller.lr

    @lr.setter
    def lr(self, lr: float) -> None:
        self._require_same()
        self._controller.set_lr(positive(lr, "lr"))

    @property
    def refreshes(self) -> int:
        """How often the controller was designed anew."""
        return self._controller.refreshes

    @property
    def drift(self) -> Optional[float]:
        """How far the outputs, at the last augment, were from where the design had expected the step before it to bring them: a share of that step's
        length. Small: the design holds; towards 1 and beyond: refresh. None before the second augment. Steps of another optimizer than plain gradient
        descent at this rate count as drift, rounding of the outputs does not: at a minimum it is all that moves them."""
        return self._controller.drift

    @property
    def gain(self) -> torch.Tensor:
        """K [n, n], float64: labels become y − K(y_hat − y). Of the cross entropy H + K, in coordinates of C − 1 a sample."""
        return self._controller.gain

    @property
    def closed_loop_radius(self) -> float:
        """The factor by which the slowest mode shrinks in a step; below 1."""
        return self._controller.closed_loop_radius

    @property
    def certificate(self) -> Dict[str, Any]:
        """What the controller in use promises: what it is (`controller`, `makes_least`), closed_loop_radius, riccati_residual, kernel_margin and overshoot_margin, the
        factors by which the kernel may grow before the loop is unstable or an error changes its sign, gain_margin, the factors on label augments between which
        it is stable, and a digest of its numbers. A number of which only bounds are known is a pair; None: nothing is known."""
        return self._controller.certificate

    @property
    def kernel(self) -> torch.Tensor:
        """The kernel that it was designed for, [n, n]."""
        return self._controller.kernel

    @property
    def report(self) -> Report:
        """The pre-flight report of the model as it is now, at this learning rate."""
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

    A mode that does not decay, that no input moves or that costs nothing, is refused; the message names its eigenvalue. The paper's state [ŷ; 1] has one, at 1:
    augmented=True takes A = [A₁, a; 0, 1], B = [B₁; 0] and Q = [Q₁, −Q₁y; −yᵀQ₁, yᵀQ₁y] and gives the paper's K, P and optimal cost, and equilibrium, y.

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
