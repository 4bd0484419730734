"""Controlled Descent Training: neural networks trained with the tools of optimal control.

>>> import torch, cdt
>>> _ = torch.manual_seed(0)
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
>>> x = torch.randn(5, 3)
>>> cdt.ntk(model, x).shape
torch.Size([5, 5])
"""

import os as _os
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

# OpenMP threads that wait for each other spin for a millisecond, which makes small steps several times slower on a busy
# machine. OpenMP reads this setting when PyTorch loads it, so it works only if cdt is imported first. It is removed
# afterwards, so that child processes do not inherit it.
_quiet = "torch" not in _sys.modules and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(_os.environ)
if _quiet:
    _os.environ["GOMP_SPINCOUNT"] = "3000"
import torch as _torch  # noqa: E402

if _quiet:
    del _os.environ["GOMP_SPINCOUNT"]

from . import _build  # noqa: E402

_here = "{}.{}".format(*_sys.version_info)
if _here != _build.python_version:
    raise ImportError(
        f"this cdt was built for Python {_build.python_version}, but this is Python {_here} ({_sys.executable}): use Python {_build.python_version}, or build cdt for {_here}"
    )
if str(_torch.__version__) != _build.torch_version:
    raise ImportError(
        f"this cdt was built for PyTorch {_build.torch_version}, but PyTorch {_torch.__version__} is installed: "
        "install the first, or build cdt with the second"
    )

# After the check, since the extension does not load with another PyTorch version.
from . import optim  # noqa: E402
from .control import Controller, Forecast, dare, forecast  # noqa: E402
from .kernel import NTK, Linearization, jvp, linearize, ntk, vjp  # noqa: E402
from .loading import PictureRun, Run, load  # noqa: E402
from .report import Report, analyze  # noqa: E402
from .training import FitResult, fit  # noqa: E402

__version__: str = _build.version
__all__ = [
    "CDTClassifier",
    "CDTRegressor",
    "Controller",
    "FitResult",
    "Forecast",
    "Linearization",
    "NTK",
    "PictureRun",
    "Report",
    "Run",
    "__version__",
    "analyze",
    "dare",
    "fit",
    "forecast",
    "jvp",
    "linearize",
    "load",
    "ntk",
    "optim",
    "vjp",
]

if _TYPE_CHECKING:
    from .estimators import CDTClassifier, CDTRegressor


def __getattr__(name: str) -> _Any:
    # Imported on first use, since only the estimators need scikit-learn.
    if name in ("CDTClassifier", "CDTRegressor"):
        try:
            from . import estimators
        except ModuleNotFoundError as error:
            raise ImportError(f"cdt.{name} needs scikit-learn (Debian: python3-sklearn, pip: scikit-learn); {error}") from error
        return getattr(estimators, name)
    raise AttributeError(f"module 'cdt' has no attribute {name!r}")
