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

from .kernel import ntk  # noqa: E402  (the check above must come first)

__version__: str = _build.version
__all__ = ["ntk", "__version__"]
