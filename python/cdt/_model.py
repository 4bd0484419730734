"""Converts user arguments for the library: models with their parameters, arrays to tensors."""

from __future__ import annotations

import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from . import _core

Params = Union[Sequence[torch.Tensor], Mapping[str, torch.Tensor]]
Vector = Union[torch.Tensor, Sequence[torch.Tensor], Mapping[str, torch.Tensor], "np.ndarray[Any, Any]"]


def as_model(model: Any, params: Optional[Params] = None) -> _core.Model:
    """A model of the library: a module, or a function (params, x) -> y with its params.

    For a module, params selects which of its parameters are differentiated, or replaces them (a dict of tensors by name).
    """
    if isinstance(model, _core.Model):
        return model
    if params is None:
        if isinstance(model, torch.nn.Module):
            return _held(model, dict(model.named_parameters()), model)
        if isinstance(model, Iterator) or isinstance(model, (list, tuple)):
            raise ValueError("expected the module itself, as in cdt.optim.Guarded(model): its parameters alone do not say how outputs come from them")
        raise ValueError(f"expected a torch.nn.Module, or a function (params, x) -> y with params=, got a {type(model).__name__} without params")
    if not callable(model):
        raise ValueError(f"the model must be a torch.nn.Module or a function, got a {type(model).__name__}")
    tensors = list(params.values()) if isinstance(params, Mapping) else list(params)
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"params must be a list of tensors, or a dict of them by name; it holds a {type(tensor).__name__}")
    if isinstance(model, torch.nn.Module):
        own = {id(p) for p in model.parameters()}
        if all(id(tensor) in own for tensor in tensors):
            _name_constants(params, tensors)
            spelled_out = {id(p): name for name, p in model.named_parameters()}
            return _held(model, {spelled_out[id(tensor)]: tensor for tensor in tensors}, model, whole=False)
        if not isinstance(params, Mapping):
            raise ValueError("params of a module must be its own parameters, or a dict of tensors by the names of named_parameters()")
        forward: Callable[..., torch.Tensor] = _functional(model)
    else:
        forward = model
    leaves = _leaves(tensors)
    _name_constants(params, leaves)
    packed: Any = dict(zip(params.keys(), leaves)) if isinstance(params, Mapping) else leaves
    names = [str(name) for name in params] if isinstance(params, Mapping) else [f"params[{i}]" for i in range(len(leaves))]
    return _held(lambda x: forward(packed, x), dict(zip(names, leaves)))


def _held(
    function: Callable[..., torch.Tensor], parameters: Mapping[str, torch.Tensor], module: Optional[torch.nn.Module] = None, *, whole: bool = True
) -> _core.Model:
    """A model whose Python object, not the C++ one, holds the function, so that the garbage collector can free a module that refers to its optimizer."""
    require_differentiable(parameters)
    model = _core.Model(weakly(function), list(parameters.values()))
    setattr(model, "keep", function)
    setattr(model, "taken", _Taken(parameters, module, whole))
    return model


def require_differentiable(parameters: Mapping[str, torch.Tensor]) -> None:
    """Raises ValueError for parameters that the library cannot differentiate."""
    for name, parameter in parameters.items():
        if not parameter.requires_grad:
            continue
        if parameter.is_complex():
            raise ValueError(
                f"the parameter {name} is complex ({parameter.dtype}), expected a real one: store torch.view_as_real of it, "
                "and call torch.view_as_complex in forward"
            )
        if parameter.layout != torch.strided:
            raise ValueError(f"the parameter {name} must be a dense tensor, but its layout is {parameter.layout}; to_dense() makes it one")
        if parameter.is_inference():
            raise ValueError(f"the parameter {name} was made under torch.inference_mode() and cannot be differentiated: make the model outside of it")


class _Taken:
    """The parameters of a model at the time it was passed."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], module: Optional[torch.nn.Module], whole: bool) -> None:
        self.parameters: Dict[str, torch.Tensor] = {name: p for name, p in parameters.items() if p.requires_grad and p.numel() > 0}
        self.shapes = {name: list(p.shape) for name, p in self.parameters.items()}
        self.module = module
        self.whole = whole  # whether these are all parameters of the module


def require_same_parameters(model: _core.Model, start: str = "the optimizer was made", anew: str = "Make the optimizer anew") -> None:
    """Raises ValueError if layers were replaced or parameters unfrozen since a controller or optimizer took the parameters.

    The library itself reports parameters that were frozen since.
    """
    taken: Optional[_Taken] = getattr(model, "taken", None)
    if taken is None:
        return
    for name, parameter in taken.parameters.items():
        if list(parameter.shape) != taken.shapes[name]:
            raise ValueError(
                f"the parameter {name} now has the shape {list(parameter.shape)}, and had {taken.shapes[name]} when {start}. {anew}, or give it its shape again"
            )
    if taken.module is None:
        return
    present = dict(taken.module.named_parameters())
    own = {id(p) for p in taken.parameters.values()}
    for name, parameter in present.items() if taken.whole else ():
        if parameter.requires_grad and parameter.numel() > 0 and id(parameter) not in own:
            raise ValueError(f"the model's parameter {name} was not there when {start}: a layer was replaced, or a parameter thawed, since. {anew}")
    there = {id(p) for p in present.values()}
    for name, parameter in taken.parameters.items():
        if id(parameter) not in there:
            raise ValueError(f"the parameter {name}, there when {start}, is no longer in the model: a layer was replaced, or removed, since. {anew}")


def require_movable(model: _core.Model) -> None:
    """Raises ValueError for parameters whose entries cannot be written independently."""
    taken: Optional[_Taken] = getattr(model, "taken", None)
    for name, parameter in () if taken is None else taken.parameters.items():
        if _core.entries_share_memory(parameter):
            raise ValueError(
                f"the parameter {name} of shape {list(parameter.shape)} cannot be moved: its entries share memory, as those of an expanded view; clone() gives each its own"
            )


def _name_constants(params: Params, tensors: Sequence[torch.Tensor]) -> None:
    """Warns of given parameters that do not require gradients."""
    names = [repr(name) for name in params] if isinstance(params, Mapping) else [str(i) for i in range(len(tensors))]
    frozen = [name for name, tensor in zip(names, tensors) if not tensor.requires_grad]
    if frozen and len(frozen) < len(tensors):
        warnings.warn(f"params[{frozen[0]}]{f' and {len(frozen) - 1} more' if frozen[1:] else ''} does not require gradients, so it counts as a constant; "
                      "requires_grad_() makes it a parameter", stacklevel=4)  # fmt: skip


def weakly(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Calls the function through a weak reference."""
    alive: Callable[[], Any] = weakref.ref(function)

    def forward(x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = alive()(x)
        return outputs

    return forward


_kept: "weakref.WeakKeyDictionary[torch.nn.Module, Tuple[Any, List[torch.nn.Parameter], _core.Model]]" = weakref.WeakKeyDictionary()


def as_kept_model(model: Any, params: Optional[Params] = None) -> _core.Model:
    """Like as_model, but returns the previous model for a module with unchanged parameters and modes, since it caches how its kernels were computed."""
    if params is not None or not isinstance(model, torch.nn.Module):
        return as_model(model, params)
    parameters = list(model.parameters())
    state = [(id(p), p.requires_grad, p.dtype, p.device) for p in parameters], [part.training for part in model.modules()]
    require_differentiable(dict(model.named_parameters()))
    known = _kept.get(model)
    if known is None or known[0] != state:
        known = _kept[model] = (state, parameters, _core.Model(weakly(model), parameters))
    return known[2]


def _functional(module: torch.nn.Module) -> Callable[..., torch.Tensor]:
    try:
        from torch.func import functional_call  # type: ignore[import-not-found,attr-defined,unused-ignore]
    except ImportError:
        from torch.nn.utils.stateless import functional_call

    def call(params: Any, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = functional_call(module, params, (x,))
        return outputs

    return call


def _leaves(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Leaf tensors: the tensors themselves if any requires gradients; otherwise differentiable leaves that share their memory."""
    if any(tensor.requires_grad for tensor in tensors):
        return [tensor if tensor.is_leaf else tensor.detach().requires_grad_() for tensor in tensors]
    return [tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor for tensor in tensors]


def spelled(name: str) -> str:
    """A name of the library, whichever line Python habits put in it: cross_entropy is cross-entropy."""
    if not isinstance(name, str):
        raise ValueError(f'expected a name, such as "mse" or "cross-entropy" of a loss, got a {type(name).__name__}')
    return name.replace("_", "-")


def number(value: Any, name: str) -> float:
    """Converts a Python or NumPy number, or an array or tensor with one entry, to float."""
    try:
        if isinstance(value, (str, bytes)) or value is None:
            raise TypeError
        if isinstance(value, (torch.Tensor, np.ndarray)):
            value = value.item()
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"{name} must be a number, got {_shown(value)}") from None


def numbers(values: Any, name: str) -> List[float]:
    """A list of numbers, from None, one number or several."""
    if values is None:
        return []
    if hasattr(values, "__iter__") and not isinstance(values, str) and getattr(values, "shape", (1,)) != ():
        return [number(value, name) for value in values]
    return [number(values, name)]


def whole(value: Any, name: str) -> int:
    """Converts a number to int; accepts 1e9."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)) and getattr(value, "size", None) != 0:
        try:
            value = value.item()
        except (ValueError, RuntimeError):
            raise ValueError(f"{name} must be a whole number, got {_shown(value)}") from None
        if isinstance(value, int):
            return int(value)
    found = number(value, name)
    if found != found or found in (float("inf"), float("-inf")) or found != int(found):
        raise ValueError(f"{name} must be a whole number, got {_shown(value)}")
    return int(found)


def bytes_of(memory: Any) -> Optional[int]:
    """An optional memory limit in bytes."""
    if memory is None:
        return None
    found = whole(memory, "memory")
    if not 0 < found < 2**63:
        raise ValueError(f"memory must be a number of bytes above 0, got {_shown(memory)}")
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def positive(value: Any, name: str) -> float:
    """A number above zero."""
    try:
        found = number(value, name)
    except ValueError:
        found = float("nan")
    if not 0 < found < float("inf"):
        raise ValueError(f"{name} must be a number above 0, got {_shown(value)}")
    return found


def as_tensor(values: Any, like: Optional[_core.Model] = None, name: str = "x") -> torch.Tensor:
    """A tensor unchanged; an array or list of numbers in the dtype and on the device of the model."""
    if isinstance(values, torch.Tensor):
        if values.is_complex() and name != "x":
            raise ValueError(f"{name} must be real numbers, got {values.dtype}; torch.view_as_real makes two of each, the real and the imaginary part")
        if values.layout != torch.strided:
            raise ValueError(f"{name} must be a dense tensor, but its layout is {values.layout}; {name}.to_dense() makes it one")
        if values.is_inference() and not torch.is_inference_mode_enabled():
            raise ValueError(f"{name} was made under torch.inference_mode(), where nothing can be differentiated; {name}.clone(), outside of it, is a tensor like any other")
        return values
    if isinstance(values, (DataLoader, Dataset)):
        raise ValueError(f"{name} must be a tensor or an array of all samples, got a {type(values).__name__}; batch_size= of cdt.fit makes batches of them")
    try:
        array = np.asarray(values)
        if array.dtype == object or array.dtype.kind not in "biuf":
            raise TypeError(f"its dtype is {array.dtype}")
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a tensor or an array of numbers, got a {type(values).__name__}: {error}") from None
    if like is None:
        return tensor
    first = like.parameters[0]
    return tensor.to(first.device, first.dtype if tensor.is_floating_point() else None)


def if_given(values: Any, like: Optional[_core.Model], name: str) -> Optional[torch.Tensor]:
    """as_tensor for an optional argument."""
    return None if values is None else as_tensor(values, like, name)


def if_given_wide(values: Any, name: str) -> Optional[torch.Tensor]:
    """as_tensor in float64 for an optional argument."""
    return None if values is None else as_tensor(values, None, name).detach().double()


def flat(vector: Vector, model: _core.Model, name: str) -> torch.Tensor:
    """One vector [P], also from tensors shaped like the parameters."""
    if isinstance(vector, (torch.Tensor, np.ndarray)):
        return as_tensor(vector, model, name).detach().reshape(-1)
    parts = list(vector.values()) if isinstance(vector, Mapping) else list(vector)
    shapes = [tuple(p.shape) for p in model.parameters]
    if [tuple(part.shape) for part in parts] != shapes:
        raise ValueError(f"{name} must be a vector of {model.parameter_count} entries, or tensors of the shapes {shapes}, got shapes {[tuple(part.shape) for part in parts]}")
    return torch.cat([part.detach().reshape(-1) for part in parts])
