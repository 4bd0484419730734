"""The library's networks as plain PyTorch modules."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn


class ScaledLinear(nn.Linear):
    """x (f W)ᵀ + g b: a linear layer with the factors f and g of its parametrisation."""

    def __init__(self, inputs: int, outputs: int, bias: bool, weight_factor: float, bias_factor: float) -> None:
        super().__init__(inputs, outputs, bias)
        self.weight_factor = weight_factor
        self.bias_factor = bias_factor

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias * self.bias_factor
        return nn.functional.linear(x, self.weight * self.weight_factor, bias)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, factors={self.weight_factor:.4g}, {self.bias_factor:.4g}"


class Erf(nn.Module):
    """erf(x), elementwise."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


_ACTIVATIONS: Dict[str, Any] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "softplus": nn.Softplus, "erf": Erf}


def _layer(weight: Tensor, bias: Optional[Tensor], weight_factor: float, bias_factor: float) -> nn.Linear:
    outputs, inputs = weight.shape
    layer: nn.Linear
    if weight_factor == 1 and (bias is None or bias_factor == 1):
        layer = nn.Linear(inputs, outputs, bias is not None)
    else:
        layer = ScaledLinear(inputs, outputs, bias is not None, weight_factor, bias_factor)
    layer.weight = nn.Parameter(weight)
    if bias is not None:
        layer.bias = nn.Parameter(bias)
    return layer


def _mlp(activation: str, layers: Sequence[Tuple[Tensor, Optional[Tensor], float, float]]) -> nn.Sequential:
    modules: List[nn.Module] = []
    for layer in layers:
        if modules:
            modules.append(_ACTIVATIONS[activation]())
        modules.append(_layer(*layer))
    return nn.Sequential(*modules)


def _conv_net(activation: str, layers: Dict[str, Any], tensors: Dict[str, Tensor]) -> nn.Sequential:
    modules: List[nn.Module] = []
    for name, stride, padding, pool, pool_stride in layers["stages"]:
        weight = tensors[name + ".weight"]
        conv = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2], stride, padding)
        conv.weight, conv.bias = nn.Parameter(weight), nn.Parameter(tensors[name + ".bias"])
        modules += [conv, _ACTIVATIONS[activation]()]
        if pool > 0:
            modules.append(nn.MaxPool2d(pool, pool_stride))
    if layers["grid"] > 0:
        modules.append(nn.AdaptiveAvgPool2d(layers["grid"]))
    modules.append(nn.Flatten())
    dense = [(tensors[name + ".weight"], tensors[name + ".bias"], 1.0, 1.0) for name in layers["dense"]]
    return nn.Sequential(*modules, *_mlp(activation, dense))


class _Block(nn.Module):
    """Residual block of two convolutions with their norms; names as in torchvision."""

    def __init__(self, inputs: int, outputs: int, stride: int, activation: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.activate = _ACTIVATIONS[activation]()
        self.downsample = None if stride == 1 else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn2(self.conv2(self.activate(self.bn1(self.conv1(x)))))
        past: Tensor = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.activate(h + past)
        return out


class ResNet18(nn.Module):
    """ResNet-18 with torchvision's names; batch norm always in evaluation mode, as in training."""

    def __init__(self, activation: str, tensors: Dict[str, Tensor]) -> None:
        super().__init__()
        first = tensors["conv1.weight"]
        width, outputs = first.shape[0], tensors["fc.weight"].shape[0]
        self.conv1 = nn.Conv2d(first.shape[1], width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.activate = _ACTIVATIONS[activation]()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            nn.Sequential(_Block(max(width, out // 2), out, 1 if out == width else 2, activation), _Block(out, out, 1, activation))
            for out in (width, 2 * width, 4 * width, 8 * width)
        )
        self.fc = nn.Linear(8 * width, outputs)
        self.to(first.dtype)
        self.load_state_dict(tensors)
        self.eval()

    def train(self, mode: bool = True) -> ResNet18:
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.training = False
        return self

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.activate(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        outputs: Tensor = self.fc(x.mean((2, 3)))
        return outputs


def network_of(member: Any) -> nn.Module:
    """Module for a member of a trained model: a tuple (activation, layers) for an mlp, a dict for picture networks."""
    if isinstance(member, tuple):
        return _mlp(*member)
    if member["layers"] is None:
        return ResNet18(member["activation"], member["tensors"])
    return _conv_net(member["activation"], member["layers"], member["tensors"])


class ScaledPictures(nn.Module):
    """Pictures [n, c, h, w] in [0, 1], each channel scaled as in training; flattened if dense layers follow."""

    offset: Tensor
    scale: Tensor

    def __init__(self, features: Dict[str, Any], dtype: torch.dtype) -> None:
        super().__init__()
        self.flat = bool(features["flat"])
        self.register_buffer("offset", torch.tensor(features["offsets"], dtype=dtype).view(-1, 1, 1))
        self.register_buffer("scale", torch.tensor(features["scales"], dtype=dtype).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.offset) / self.scale
        return x.flatten(1) if self.flat else x


def nearest_probabilities(outputs: Tensor) -> Tensor:
    """The probabilities [n, C] nearest to outputs that were fitted to 1 and 0: the k largest, minus a constant such that their sum is 1."""
    ordered = torch.sort(outputs, 1, descending=True)[0]
    count = torch.arange(1, outputs.shape[1] + 1, dtype=outputs.dtype, device=outputs.device)
    excess = (ordered.cumsum(1) - 1) / count
    kept = (ordered > excess).sum(1, keepdim=True)
    return torch.clamp(outputs - excess.gather(1, kept - 1), min=0)
