"""An ONNX file evaluated with NumPy, by the words of the standard: no runtime is in Debian 12. The operators are those that our exports have."""

import math

import numpy as np
import onnx
from onnx import numpy_helper


def _pads(x, attributes, dimensions, fill):
    pads = attributes.get("pads", [0] * 2 * dimensions)
    return np.pad(x, [(0, 0), (0, 0), *((pads[d], pads[d + dimensions]) for d in range(dimensions))], constant_values=fill)


def _windows(x, attributes, size, fill):
    """[n, c, h′, w′, kh, kw]"""
    assert attributes.get("auto_pad", b"NOTSET") == b"NOTSET" and not attributes.get("ceil_mode") and set(attributes.get("dilations", [1])) == {1}
    padded = _pads(x, attributes, len(size), fill)
    down, right = attributes.get("strides", [1, 1])
    return np.lib.stride_tricks.sliding_window_view(padded, size, (2, 3))[:, :, ::down, ::right]


def _conv(a, x, weight, bias=None):
    assert a.get("group", 1) == 1
    found = np.einsum("nchwij,ocij->nohw", _windows(x, a, weight.shape[2:], 0), weight)
    return found if bias is None else found + bias[:, None, None]


def _gemm(a, x, y, z=0):
    x, y = (x.T if a.get("transA") else x), (y.T if a.get("transB") else y)
    return (a.get("alpha", 1.0) * (x @ y) + a.get("beta", 1.0) * z).astype(x.dtype)


def _softmax(a, x):
    e = np.exp(x - x.max(a.get("axis", -1), keepdims=True))
    return e / e.sum(a.get("axis", -1), keepdims=True)


def _top_k(a, x, k):
    axis = a.get("axis", -1)
    order = np.argsort(-x if a.get("largest", 1) else x, axis, kind="stable").take(range(int(k[0])), axis)
    return np.take_along_axis(x, order, axis), order


def _unsqueeze(a, x, axes=None):
    for axis in sorted(a["axes"] if axes is None else axes.tolist()):
        x = np.expand_dims(x, axis)
    return x


def _reduce(function):
    def apply(a, x, axes=None):
        axes = a.get("axes") if axes is None else axes.tolist()
        return function(x, axis=None if axes is None else tuple(axes), keepdims=bool(a.get("keepdims", 1)))

    return apply


def _cumulative_sum(a, x, axis):
    assert not a.get("exclusive") and not a.get("reverse")
    return np.cumsum(x, axis.item())


def _dtype(to):
    if hasattr(onnx.helper, "tensor_dtype_to_np_dtype"):  # 1.13 and later
        return onnx.helper.tensor_dtype_to_np_dtype(to)
    return onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[to]


_erf = np.vectorize(math.erf, otypes=[float])


def _gelu(a, x):
    if a.get("approximate", b"none") == b"tanh":
        return (0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))).astype(x.dtype)
    return (0.5 * x * (1 + _erf(x / math.sqrt(2)))).astype(x.dtype)


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "Cast": lambda a, x: x.astype(_dtype(a["to"])),
    "Clip": lambda a, x, low=None, high=None: np.clip(x, -np.inf if low is None else low, np.inf if high is None else high).astype(x.dtype),
    "Concat": lambda a, *parts: np.concatenate(parts, a["axis"]),
    "Constant": lambda a: a["value"],
    "Conv": _conv,
    "CumSum": _cumulative_sum,
    "Div": lambda a, x, y: x / y if x.dtype.kind == "f" else x // y,
    "Erf": lambda a, x: _erf(x).astype(x.dtype),
    "Exp": lambda a, x: np.exp(x),
    "Flatten": lambda a, x: x.reshape(int(np.prod(x.shape[: a.get("axis", 1)])), -1),
    "Gather": lambda a, x, at: np.take(x, at, a.get("axis", 0)),
    "GatherElements": lambda a, x, at: np.take_along_axis(x, at, a.get("axis", 0)),
    "Gelu": _gelu,
    "Gemm": _gemm,
    "Greater": lambda a, x, y: x > y,
    "Identity": lambda a, x: x,
    "Max": lambda a, x, y: np.maximum(x, y),
    "MaxPool": lambda a, x: _windows(x, a, a["kernel_shape"], -np.inf).max((4, 5)),
    "Min": lambda a, x, y: np.minimum(x, y),
    "Mul": lambda a, x, y: x * y,
    "Range": lambda a, start, limit, step: np.arange(start, limit, step),
    "ReduceMean": _reduce(np.mean),
    "ReduceSum": _reduce(np.sum),
    "Relu": lambda a, x: np.maximum(x, 0),
    "Shape": lambda a, x: np.asarray(x.shape, np.int64),
    "Softmax": _softmax,
    "Sub": lambda a, x, y: x - y,
    "Tanh": lambda a, x: np.tanh(x),
    "TopK": _top_k,
    "Unsqueeze": _unsqueeze,
    "Where": lambda a, which, x, y: np.where(which, x, y),
}


def _value(attribute):
    value = onnx.helper.get_attribute_value(attribute)
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def evaluate(file, **inputs):
    """The outputs of a checked file, a list."""
    model = onnx.load(str(file))
    onnx.checker.check_model(model, full_check=True)
    values = {"": None, **{each.name: numpy_helper.to_array(each) for each in model.graph.initializer}, **inputs}
    for node in model.graph.node:
        found = OPERATORS[node.op_type]({each.name: _value(each) for each in node.attribute}, *(values[name] for name in node.input))
        values.update(zip(node.output, found if isinstance(found, tuple) else (found,)))
    return [values[each.name] for each in model.graph.output]
