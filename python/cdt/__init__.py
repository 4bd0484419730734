"""Controlled Descent Training: neural networks trained with the tools of optimal control.

>>> import torch, cdt
>>> _ = torch.manual_seed(0)
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
>>> x = torch.randn(5, 3)
>>> cdt.ntk(model, x).shape
torch.Size([5, 5])
"""

import torch as _torch

from . import _build

if _torch.__version__ != _build.torch_version:
    raise ImportError(
        f"this cdt was built for PyTorch {_build.torch_version}, but the one here is {_torch.__version__}: "
        "install that one, or build cdt with this one"
    )

# After the check: the extension does not load with another PyTorch.
from . import optim  # noqa: E402
from .control import Controller, Forecast, dare, forecast  # noqa: E402
from .kernel import NTK, Linearization, jvp, linearize, ntk, vjp  # noqa: E402
from .report import Report, analyze  # noqa: E402
from .training import FitResult, fit  # noqa: E402

__version__: str = _build.version
__all__ = [
    "Controller",
    "FitResult",
    "Forecast",
    "Linearization",
    "NTK",
    "Report",
    "__version__",
    "analyze",
    "dare",
    "fit",
    "forecast",
    "jvp",
    "linearize",
    "ntk",
    "optim",
    "vjp",
]
