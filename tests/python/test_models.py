"""Kernels of the models that people have, against torch.autograd.functional on the whole batch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cdt
from oracle import jacobian_kernel, kernel_by_rows, relative_error

# Rounding of float32 passes; the oracle multiplies its Jacobian in float64, as the library does.
SINGLE, DOUBLE = 2e-5, 1e-11


def cnn():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))


class Shared(nn.Module):
    """One weight in two places, once transposed."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = torch.tanh(self.encode(x))
        return self.head(torch.tanh(F.linear(h, self.encode.weight.t())))


class Twice(nn.Module):
    """A layer applied twice: naive rules forget the cross terms."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.relu(self.layer(torch.relu(self.layer(x)))))


class Block(nn.Module):
    """A transformer block: attention, layer norm, residual connections."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        x = x + self.feed(self.norm2(x))
        return self.head(x.mean(1))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.Sequential(nn.Linear(4, 5), nn.Tanh()), "b": nn.ModuleList([nn.Linear(5, 5), nn.Linear(5, 2)])})
        self.scale = nn.Parameter(torch.tensor([0.5, 2.0]))

    def forward(self, x):
        h = self.parts["a"](x)
        for layer in self.parts["b"]:
            h = layer(torch.sigmoid(h))
        return h * self.scale


def batch_norm():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    model(torch.randn(32, 4))  # statistics that are not the initial ones
    return model.eval()


def weight_norm():
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 1))


def spectral_parametrization():
    return nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 1))


MODELS = {
    "cnn": (cnn, (3, 1, 8, 8)),
    "shared": (Shared, (6, 4)),
    "twice": (Twice, (6, 4)),
    "transformer": (Block, (4, 5, 8)),
    "nested": (Nested, (6, 4)),
    "batch norm": (batch_norm, (6, 4)),
    "weight norm": (weight_norm, (6, 4)),
    "orthogonal": (spectral_parametrization, (6, 4)),
}


class _Last(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0][:, -1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MODELS)
def test_against_autograd(name, dtype):
    torch.manual_seed(3)
    make, shape = MODELS[name]
    model, x = make().to(dtype), torch.randn(shape, dtype=dtype)
    assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < (SINGLE if dtype == torch.float32 else DOUBLE)


def test_recurrent():
    torch.manual_seed(3)
    model, x = _Last(nn.LSTM(3, 5, batch_first=True)).double(), torch.randn(4, 6, 3, dtype=torch.float64)
    assert relative_error(cdt.ntk(model, x), kernel_by_rows(model, x)) < DOUBLE


TORCHVISION = {
    "alexnet": ((2, 3, 64, 64), {"num_classes": 1}),  # a row of its Jacobian is half a gigabyte
    "resnet18": ((2, 3, 32, 32), {"num_classes": 2}),
    "squeezenet1_1": ((2, 3, 48, 48), {"num_classes": 2}),
    "mobilenet_v3_small": ((2, 3, 32, 32), {"num_classes": 2}),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name):
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(4)
    shape, options = TORCHVISION[name]
    model = getattr(torchvision.models, name)(**options).eval().double()
    x = torch.randn(shape, dtype=torch.float64)
    assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < 1e-10


def test_vision_transformer():
    vit = pytest.importorskip("torchvision").models.vision_transformer.VisionTransformer
    torch.manual_seed(4)
    model = vit(image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=3).eval().double()
    nn.init.normal_(model.heads.head.weight)  # zero at the start: nothing would reach the encoder
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < 1e-10


def test_scripted():
    torch.manual_seed(5)
    model, x = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)), torch.randn(5, 4)
    expected = jacobian_kernel(model, x)
    assert relative_error(cdt.ntk(torch.jit.script(model), x), expected) < SINGLE
    assert relative_error(cdt.ntk(torch.jit.trace(model, x), x), expected) < SINGLE


def test_frozen_parameters_do_not_count():
    torch.manual_seed(5)
    model, x = cnn(), torch.randn(3, 1, 8, 8)
    whole = cdt.ntk(model, x)
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < SINGLE
    assert relative_error(cdt.ntk(model, x), whole) > 1e-3


def test_strided_inputs_and_no_grad():
    torch.manual_seed(5)
    model, x = Nested(), torch.randn(4, 6).t()
    assert not x.is_contiguous()
    with torch.no_grad():
        found = cdt.ntk(model, x)
    assert relative_error(found, jacobian_kernel(model, x.contiguous())) < SINGLE


def test_chosen_parameters():
    torch.manual_seed(6)
    model, x = Nested(), torch.randn(5, 4)
    named = dict(model.named_parameters())
    some = {name: named[name] for name in ("parts.a.0.weight", "scale")}
    expected = jacobian_kernel(model, x, some)
    assert relative_error(cdt.ntk(model, x, params=some), expected) < SINGLE
    assert relative_error(cdt.ntk(model, x, params=list(some.values())), expected) < SINGLE


def test_other_values_of_the_parameters():
    torch.manual_seed(6)
    model, other, x = Nested(), Nested(), torch.randn(5, 4)
    values = {name: p.detach() for name, p in other.named_parameters()}
    assert relative_error(cdt.ntk(model, x, params=values), jacobian_kernel(other, x)) < SINGLE


def test_functions_of_parameters():
    torch.manual_seed(7)
    a, b, x = torch.randn(3, 4), torch.randn(4), torch.randn(6, 3)

    def by_list(params, x):
        return torch.sin(x @ params[0] + params[1]).sum(1)

    def by_name(params, x):
        return by_list([params["a"], params["b"]], x)

    h = torch.cos(x @ a + b)
    expected = (h.double() @ h.double().t()) * (x.double() @ x.double().t() + 1)
    assert relative_error(cdt.ntk(by_list, x, params=[a, b]), expected) < SINGLE
    assert relative_error(cdt.ntk(by_name, x, params={"a": a, "b": b.requires_grad_()}), (h.double() @ h.double().t())) < SINGLE
    assert relative_error(cdt.ntk(by_name, x, params={"a": a.requires_grad_(), "b": b}), expected) < SINGLE


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(6), nn.Dropout(0.3)])
def test_training_mode_is_refused(layer):
    model = nn.Sequential(nn.Linear(4, 6), layer, nn.Linear(6, 1)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="eval"):
        cdt.ntk(model, torch.randn(5, 4))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_dicts_are_refused():
    class Named(nn.Linear):
        def forward(self, x):
            return {"y": super().forward(x)}

    with pytest.raises(ValueError, match="must return one tensor, but returned dict"):
        cdt.ntk(Named(3, 1), torch.randn(2, 3))


def test_coupled_samples_are_refused():
    class Centred(nn.Linear):
        def forward(self, x):
            h = super().forward(x)
            return h - h.mean(0)

    with pytest.raises(ValueError, match="sample"):
        cdt.ntk(Centred(3, 1), torch.randn(4, 3))
