"""scikit-learn estimators for tables: no learning rate, no number of epochs; text and missing values are supported."""

from __future__ import annotations

import inspect
import numbers
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils import validation as _validation
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from . import _core
from ._frames import is_frame, known_columns, names_of, table_of, threads_of, warn_of_rounding
from ._sealed import Sealed
from .loading import EnsembleModule

# Settings that the estimators choose themselves, or that concern files.
_OWN = frozenset(
    "file drop numeric text missing no-header delimiter target goal missing-target sample-weights class-weights loss seed threads tune importance"
    " no-analysis csv-safe checkpoint-seconds hidden activation method ensemble folds no-refit no-intervals target-transform max-seconds device".split()
)
# The argument was renamed in scikit-learn 1.6.
_FINITE = "ensure_all_finite" if "ensure_all_finite" in inspect.signature(check_array).parameters else "force_all_finite"


def _values(value: Any) -> Optional[List[str]]:
    """A setting's values as the program spells them; None if it is not set."""
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)):
        return [] if value else None
    if isinstance(value, (list, tuple, np.ndarray)):
        return [str(each) for each in value]
    return [repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)]


class _Estimator(Sealed, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Common base: options, input checks, fit."""

    # Set by fit.
    n_features_in_: int
    _trained: _core.Trained
    _columns: List[str]

    def __init__(
        self,
        hidden: Union[int, Sequence[int]],
        activation: Optional[str],
        method: str,
        ensemble: Optional[int],
        folds: Optional[int],
        refit: bool,
        max_seconds: Optional[float],
        device: str,
        n_jobs: Optional[int],
        random_state: Any,
        verbose: Any,
        options: Optional[Mapping[str, Any]],
        unknown: str,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.method = method
        self.ensemble = ensemble
        self.folds = folds
        self.refit = refit
        self.max_seconds = max_seconds
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.options = options
        self.unknown = unknown

    def _more_tags(self) -> Dict[str, Any]:
        return {"allow_nan": True}

    def __sklearn_tags__(self) -> Any:  # scikit-learn 1.6 and later
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_columns(self, X: Any, reset: bool) -> None:
        """Checks names and number of columns with scikit-learn's own functions."""
        for check in ("_check_feature_names", "_check_n_features"):
            if hasattr(_validation, check):
                getattr(_validation, check)(self, X, reset=reset)
            else:
                getattr(self, check)(X, reset=reset)

    def _check_X(self, X: Any, reset: bool) -> Any:
        least = 2 if reset else 1
        if is_frame(X):
            if X.shape[0] < least:
                raise ValueError(f"Found array with {X.shape[0]} sample(s) (shape={X.shape}) while a minimum of {least} is required.")
            if X.shape[1] < 1:
                raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
            checked = X
        else:
            # A mixed list would become all text; as objects its numbers stay numbers.
            if isinstance(X, (list, tuple)) and np.asarray(X, dtype=object).ndim == 2 and np.asarray(X).dtype.kind in "US":
                X = np.asarray(X, dtype=object)
            checked = check_array(X, dtype=None, ensure_min_samples=least, estimator=self, **{_FINITE: "allow-nan"})
        self._check_columns(X if is_frame(X) else checked, reset)
        return checked

    def _check_training(self, X: Any, y: Any) -> Any:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        return self._check_X(X, reset=True)

    def _settings(self, seed: int) -> List[Tuple[str, List[str]]]:
        hidden = np.atleast_1d(np.asarray(self.hidden)).tolist()
        wanted: Dict[str, Any] = {
            "hidden": hidden,
            "activation": self.activation,
            "method": self.method,
            "ensemble": self.ensemble,
            "folds": self.folds,
            "no-refit": not self.refit,
            "max-seconds": self.max_seconds,
            "device": self.device,
            "seed": seed,
        }
        for name, value in (self.options or {}).items():
            spelled = str(name).replace("_", "-")
            if spelled in _OWN:
                raise ValueError(f"options: {name!r} has a parameter of its own, or no meaning for tables in memory")
            wanted[spelled] = value
        return [(name, values) for name, value in wanted.items() if (values := _values(value)) is not None]

    def _seed(self) -> int:
        """An integer is used as in `cdt train --seed`."""
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _fit(
        self, X: Any, y: Any, targets: Sequence[str], sample_weight: Any, settings: Sequence[Tuple[str, List[str]]]
    ) -> None:
        """Fits checked X and numbers y [n, t]. Ignores rows of weight 0; only ratios of weights matter."""
        names = names_of(X)
        weights = None
        if sample_weight is not None:
            weights = _validation._check_sample_weight(sample_weight, X, dtype=np.float64)
            if (weights < 0).any():
                raise ValueError("Negative values in data passed to `sample_weight`")
            kept = weights > 0
            if not kept.any():
                raise ValueError("sample_weight: expected a weight above zero, but all are 0")
            X, y, weights = (X.iloc[kept] if is_frame(X) else X[kept]), y[kept], weights[kept]
            weights = weights / weights.mean()
            if (weights == 1).all():
                weights = None
        table = table_of(X, names, {})
        answered = {"dates", "decimal"} & set(self.options or {})  # the user has resolved ambiguous texts
        for warning in [] if answered else table.warnings:
            warnings.warn(warning, stacklevel=3)
        taken = set(names)
        targets = [_free_name(name, taken) for name in targets]
        for i, name in enumerate(targets):
            table.add_numbers(name, np.ascontiguousarray(y[:, i], dtype=np.float64))
        wanted = [("target", list(targets)), *self._settings(self._seed()), *settings]
        if weights is not None:
            name = _free_name("sample_weight", taken)
            table.add_numbers(name, weights)
            wanted.append(("sample-weights", [name]))
        if not is_frame(X) and not any(name == "keep" for name, _ in wanted):
            wanted.append(("keep", names))  # the user has chosen an array's columns
        found = _core.learn(table, wanted, threads_of(self.n_jobs), self._say if self.verbose else None)
        self._trained = found["model"]
        self._columns = names
        self._of_frame = is_frame(X)
        self.notes_: List[str] = found["notes"]
        self.choices_: List[Dict[str, str]] = found["choices"]
        self.n_iter_: int = found["points"]
        self.n_members_: int = found["members"]
        self.held_out_loss_ = np.asarray(found["held_out_loss"])
        self.expected_: List[Dict[str, Any]] = found["expected"]
        if self.verbose:
            for line in [*self.notes_, *(each["text"] for each in self.expected_)]:
                print(f"[{type(self).__name__}] {line}")

    def _say(self, refit: bool, point: int, of: int, loss: float) -> None:
        what = f"all rows, point {point + 1} of {of}" if refit else f"point {point} of at most {of}, held-out loss {loss:.4g}"
        print(f"[{type(self).__name__}] {what}", flush=True)

    def _table(self, X: Any) -> _core.Table:
        check_is_fitted(self, "_trained")
        X = self._check_X(X, reset=False)
        # By name if both are frames, since columns may be in another order.
        by_name = is_frame(X) and getattr(self, "_of_frame", False)
        return known_columns(self._trained, X, names_of(X) if by_name else self._columns, "X", getattr(self, "unknown", "warn"))

    def _predicted(self, table: _core.Table) -> Tensor:
        return self._trained.predict(table, threads_of(self.n_jobs))

    def encode(self, X: Any) -> Tensor:
        """The features [n, F], encoded and scaled, in the dtype of `module_`."""
        table = self._table(X)
        return self._trained.encode(table, threads_of(self.n_jobs)).to(self._trained.dtype)

    @property
    def module_(self) -> EnsembleModule:
        """The predictor as a plain torch.nn.Module of encoded features; a new one each time."""
        check_is_fitted(self, "_trained")
        return EnsembleModule(self._trained)


def _free_name(name: str, taken: "set[str]") -> str:
    """An unused column name: `name`, with underscores appended if necessary."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


class CDTRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """Predicts numbers from tables (arrays, or frames with text, dates and missing values) by an ensemble of networks.

    Equivalent to `cdt train` with the goal "predict": held-out rows select the best point of a path of decreasing decay;
    then networks are trained on all rows to that point. Needs no learning rate, number of epochs, or scaling.

    hidden            widths of the hidden layers; () is a linear model of the encoded features
    activation        relu, tanh, gelu, softplus or erf; None: networks alternate between relu and tanh
    method            "path", or an optimizer with early stopping for comparison: "adam", "momentum", …
    ensemble          number of networks trained on all rows; None: four if that takes seconds, else fewer
    folds             cross-validation folds; None: as many as networks
    refit             train networks on all rows in the end; False: only the networks of the folds predict
    intervals         keep the data for `predict_interval` and `return_std` (training rows and residuals)
    loss              "mse" (the mean), "quantile:0.9" (the 0.9 quantile), "poisson" (the mean of counts), "huber:1"
    target_transform  "auto" learns the logarithm of positive, skewed targets; "none", "log"
    max_seconds       time limit of selection and refit together; None: no limit
    device            "cpu" or "cuda"; predictions are made on the CPU
    n_jobs            threads; None: OMP_NUM_THREADS, else all cores
    random_state      an integer is used as in `cdt train --seed`
    verbose           print each point, the choices made, and the expected error on new rows
    options           further settings by their names in `cdt train --help`: {"quantiles": 0, "clip": 5}
    unknown           what `predict` does about values unknown in training, and missing ones in columns that had none:
                      "warn" with their number, or "refuse"

    Every column of an array is a feature. Columns of a frame that identify rows (a running number, text that differs in each
    row) are left out; `notes_` says so.

    Attributes: `expected_` (expected error on new rows, compared with a linear model and the mean), `notes_`, `choices_` (each
    setting given or chosen: its value, who chose it and why), `n_iter_` (the point), `held_out_loss_` (per point),
    `n_members_`, `module_` and `encode` (plain PyTorch).

    >>> import numpy as np, cdt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (120, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1]
    >>> model = cdt.CDTRegressor(hidden=(32,), random_state=1).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> mean.shape, std.shape, model.predict_interval(X[:3], coverage=0.8).shape
    ((3,), (3,), (3, 2))
    """

    def __init__(
        self,
        hidden: Union[int, Sequence[int]] = (256, 256),
        *,
        activation: Optional[str] = None,
        method: str = "path",
        ensemble: Optional[int] = None,
        folds: Optional[int] = None,
        refit: bool = True,
        intervals: bool = True,
        loss: str = "mse",
        target_transform: str = "auto",
        max_seconds: Optional[float] = None,
        device: str = "cpu",
        n_jobs: Optional[int] = None,
        random_state: Any = None,
        verbose: Any = False,
        options: Optional[Mapping[str, Any]] = None,
        unknown: str = "warn",
    ) -> None:
        super().__init__(hidden, activation, method, ensemble, folds, refit, max_seconds, device, n_jobs, random_state, verbose, options, unknown)
        self.intervals = intervals
        self.loss = loss
        self.target_transform = target_transform

    def _more_tags(self) -> Dict[str, Any]:
        return {**super()._more_tags(), "multioutput": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "CDTRegressor":
        """Fits y [n], or [n, t], on X [n, F]. sample_weight weights the objective; rows of weight 0 are ignored."""
        X = self._check_training(X, y)
        targets = [str(name) for name in y.columns] if is_frame(y) else [str(getattr(y, "name", None) or "y")]
        y = check_array(y, ensure_2d=False, dtype="numeric", input_name="y", estimator=self)
        if y.dtype.kind in "iu":
            warn_of_rounding(y.ravel().tolist(), "y")
        y = np.asarray(y, dtype=np.float64)
        if y.ndim > 2:
            raise ValueError(f"y should be 1d or 2d, got an array of shape {y.shape} instead")
        check_consistent_length(X, y)
        self._single = y.ndim == 1
        self.n_outputs_ = 1 if self._single else y.shape[1]
        y = y.reshape(len(y), -1)
        if len(targets) != y.shape[1]:
            targets = [f"y{i}" for i in range(y.shape[1])]
        settings = [("loss", [self.loss])]
        if self.target_transform != "auto":
            settings.append(("target-transform", [self.target_transform]))
        if not self.intervals:
            settings.append(("no-intervals", []))
        self._fit(X, y, targets, sample_weight, settings)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions [n] ([n, t] for y [n, t]); with return_std also the standard deviations of new targets, noise included."""
        table = self._table(X)
        mean = self._shaped(self._predicted(table))
        if not return_std:
            return mean
        return mean, self._shaped(self._trained.deviations(table, threads_of(self.n_jobs)))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Bounds [n, 2] ([n, t, 2] for y [n, t]) that contain this share of new rows, if these are like the training rows."""
        low, high = self._trained.bounds(self._table(X), float(coverage), threads_of(self.n_jobs))
        return np.stack([self._shaped(low), self._shaped(high)], -1)

    def _shaped(self, values: Tensor) -> Any:
        return values.numpy()[:, 0] if self._single else values.numpy()


class CDTClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """Predicts classes from tables (arrays, or frames with text, dates and missing values) by an ensemble of networks.

    Parameters and attributes are those of CDTRegressor that apply to classes, and

    class_weight  None, "balanced" or a dict of weights by class; they multiply sample_weight

    Probabilities are calibrated on held-out rows. Classes may be text or numbers.

    >>> import numpy as np, cdt
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 2))
    >>> y = np.where((X**2).sum(1) > 1.4, "outside", "inside")
    >>> model = cdt.CDTClassifier(hidden=(32,), random_state=1).fit(X, y)
    >>> model.predict([[0.0, 0.1], [2.0, 2.0]]).tolist()
    ['inside', 'outside']
    >>> model.predict_proba(X[:5]).shape
    (5, 2)
    """

    classes_: "np.ndarray[Any, Any]"

    def __init__(
        self,
        hidden: Union[int, Sequence[int]] = (256, 256),
        *,
        activation: Optional[str] = None,
        method: str = "path",
        ensemble: Optional[int] = None,
        folds: Optional[int] = None,
        refit: bool = True,
        class_weight: Union[None, str, Mapping[Any, float]] = None,
        max_seconds: Optional[float] = None,
        device: str = "cpu",
        n_jobs: Optional[int] = None,
        random_state: Any = None,
        verbose: Any = False,
        options: Optional[Mapping[str, Any]] = None,
        unknown: str = "warn",
    ) -> None:
        super().__init__(hidden, activation, method, ensemble, folds, refit, max_seconds, device, n_jobs, random_state, verbose, options, unknown)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "CDTClassifier":
        """Fits classes y [n] on X [n, F]. sample_weight weights the objective; rows of weight 0 are ignored."""
        X = self._check_training(X, y)
        name = str(getattr(y, "name", None) or "y")
        y = column_or_1d(y, warn=True)
        _validation.assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        check_consistent_length(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs two classes or more, got one class, {self.classes_[0]!r}")
        self._fit(X, codes.reshape(-1, 1), [name], sample_weight, [("loss", ["cross-entropy"]), *self._class_weights()])
        return self

    def _class_weights(self) -> List[Tuple[str, List[str]]]:
        if self.class_weight is None:
            return []
        if self.class_weight == "balanced":
            return [("class-weights", ["balanced"])]
        if not isinstance(self.class_weight, Mapping):
            raise ValueError(f'class_weight must be None, "balanced" or a dict, got {self.class_weight!r}')
        known = {label: code for code, label in enumerate(self.classes_.tolist())}
        weights = []
        for label, weight in self.class_weight.items():
            if label not in known:
                raise ValueError(f"class_weight: {label!r} is no class of y; there are {list(known)}")
            weights.append(f"{known[label]}={float(weight)!r}")
        return [("class-weights", weights)] if weights else []

    def predict_proba(self, X: Any) -> Any:
        """The probability of each class [n, C], in the order of `classes_`."""
        found = self._predicted(self._table(X)).numpy()
        codes = [int(name) for name in self._trained.classes]
        if len(codes) == len(self.classes_):
            return found
        values = np.zeros((len(found), len(self.classes_)))  # classes with weight 0 only were not learned
        values[:, codes] = found
        return values

    def predict(self, X: Any) -> Any:
        """The most probable class of each row [n]."""
        proba = self.predict_proba(X)  # first, since it raises NotFittedError
        return self.classes_[proba.argmax(axis=1)]
