"""What others do to a model between two calls, what a call leaves behind in it, and numbers of any kind."""

import gc
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cdt


def problem(seed=0, width=16):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1)).double()
    x = torch.rand(20, 3, dtype=torch.float64)
    return model, x, x.prod(1, keepdim=True)


@pytest.mark.parametrize("closure", [False, True])
def test_edits_that_bump_no_version_are_seen(closure):
    for seed in range(10):
        model, x, y = problem(seed)
        opt = cdt.optim.Guarded(model)
        step = (lambda: opt.step(lambda: model(x) - y)) if closure else (lambda: opt.step(x, y))
        for _ in range(4):
            step()
        for factor in (1.01, 1.3, 0.5):
            for parameter in model.parameters():
                parameter.data.mul_(factor)
            before = F.mse_loss(model(x), y).item()
            assert step().item() == pytest.approx(before, rel=1e-9)
            assert F.mse_loss(model(x), y).item() <= before


def test_replaced_buffers_and_modes_are_seen():
    model, x, y = problem()
    model.append(nn.BatchNorm1d(1).double().eval())
    opt = cdt.optim.Guarded(model)
    for _ in range(3):
        opt.step(x, y)
    model[3].running_mean = torch.ones(1, dtype=torch.float64)
    before = F.mse_loss(model(x), y).item()
    assert opt.step(x, y).item() == pytest.approx(before, rel=1e-9)
    assert F.mse_loss(model(x), y).item() <= before
    model.train()
    statistics = model[3].running_var.clone()
    with pytest.raises(ValueError, match="call eval"):
        opt.step(x, y)
    assert torch.equal(model[3].running_var, statistics) and model[3].num_batches_tracked == 0


def test_parameters_that_were_never_seen_are_named():
    model, x, y = problem()
    model[0].bias.requires_grad_(False)
    opt = cdt.optim.Guarded(model)
    opt.step(x, y)
    model[0].bias.requires_grad_(True)
    with pytest.raises(ValueError, match="parameter 0.bias was not there when.*Make the optimizer anew"):
        opt.step(x, y)
    model[0].bias.requires_grad_(False)
    model[2] = nn.Linear(16, 1).double()
    with pytest.raises(ValueError, match="parameter 2.weight"):
        opt.step(x, y)


def test_weights_that_are_all_equal_are_none():
    ended = []
    for weight in (None, torch.full((20,), 2.0), np.full(20, 0.1)):
        model, x, y = problem()
        cdt.fit(model, x, y, sample_weight=weight, steps=10, progress=False)
        ended.append([p.detach().clone() for p in model.parameters()])
    for other in ended[1:]:
        assert all(torch.equal(a, b) for a, b in zip(ended[0], other))


def test_optimizers_of_closures_are_freed():
    alive = []
    for _ in range(3):
        model, x, y = problem()
        alive.append(weakref.ref(model))
        opt = cdt.optim.Guarded(model)
        opt.step(lambda: model(x) - y)
        del opt, model
    gc.collect()
    assert [r() for r in alive] == [None] * 3


@pytest.mark.parametrize("hold", [cdt.optim.Guarded, lambda m: cdt.Controller(m, *problem()[1:], lr=0.1), lambda m: cdt.NTK(m, problem()[1])])
def test_modules_that_hold_what_holds_them_are_freed(hold):
    model, x, y = problem()
    model.held = hold(model)
    if hasattr(model.held, "step"):
        model.held.step(x, y)
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2).double()

    def forward(self, x):
        return torch.view_as_complex(self.inner(x))


def test_complex_numbers_name_view_as_real():
    real, x, y = problem()
    model = Complex()
    wide = torch.complex(y, y)
    controller = cdt.Controller(real, x, y, lr=0.1)
    for ask in (
        lambda: cdt.ntk(model, x),
        lambda: cdt.NTK(model, x),
        lambda: cdt.optim.Guarded(model).step(x, y),
        lambda: cdt.optim.Guarded(real).step(x, wide),
        lambda: cdt.optim.Guarded(real).step(lambda: torch.complex(real(x), y)),
        lambda: cdt.fit(model, x, y, method="adam", progress=False),
        lambda: cdt.fit(real, x, wide, progress=False),
        lambda: cdt.fit(real, x, y, sample_weight=wide[:, 0], progress=False),
        lambda: cdt.analyze(model, x, y, lr=0.1),
        lambda: cdt.analyze(real, x, wide, lr=0.1),
        lambda: cdt.analyze(torch.eye(3, dtype=torch.complex128), lr=0.1),
        lambda: cdt.Controller(model, x, y, lr=0.1),
        lambda: cdt.Controller(real, x, wide, lr=0.1),
        lambda: cdt.Controller(real, x, y, lr=0.1, Q=torch.ones(20, dtype=torch.complex128)),
        lambda: controller.augment(torch.complex(real(x), y)),
        lambda: cdt.forecast(real, x, wide, x, y),
        lambda: cdt.vjp(real, x, wide),
        lambda: cdt.linearize(model, x),
        lambda: cdt.dare(*[torch.eye(2, dtype=torch.complex128)] * 4),
    ):
        with pytest.raises(ValueError, match="torch.view_as_real"):
            ask()
    # As the message says.
    parts = lambda params, x: torch.view_as_real(model(x))
    expected = torch.kron(x @ x.t() + 1, torch.eye(2, dtype=torch.float64))
    assert torch.allclose(cdt.ntk(parts, x, params=list(model.parameters())), expected)


def test_nothing_at_all_is_an_error_not_the_end():
    model, x, y = problem()
    mask = torch.zeros(20, dtype=torch.bool)
    for ask in (
        lambda: cdt.optim.Guarded(model).step(lambda: model(x)[:0]),
        lambda: cdt.optim.Guarded(model).step(lambda: (model(x) - y)[mask]),
        lambda: cdt.optim.Guarded(model).step(lambda: model(x[:0]) - y[:0]),
        lambda: cdt.optim.Guarded(model).step(x[:0], y[:0]),
        lambda: cdt.optim.Guarded(model).step(x, y[:, :0]),
        lambda: cdt.optim.Guarded(nn.Sequential(model, nn.Linear(1, 0).double())).step(x, y[:, :0]),
        lambda: cdt.fit(model, x[:0], y[:0], progress=False),
        lambda: cdt.fit(model, x[:0], y[:0], goal="predict", progress=False),
        lambda: cdt.fit(model, x, y, x_val=x[:0], y_val=y[:0], progress=False),
        lambda: cdt.fit(model, x[:, :0], y, progress=False),
        lambda: cdt.ntk(model, x[:0]),
        lambda: cdt.ntk(model, x, x[:0]),
        lambda: cdt.NTK(model, x[:0]),
        lambda: cdt.vjp(model, x[:0], y[:0]),
        lambda: cdt.linearize(model, x[:0]),
        lambda: cdt.analyze(model, x[:0], y[:0], lr=0.1),
        lambda: cdt.analyze(torch.zeros(0, 0, dtype=torch.float64), lr=0.1),
        lambda: cdt.Controller(model, x[:0], y[:0], lr=0.1),
        lambda: cdt.Controller(model, x, y, lr=0.1).augment(y[:0]),
        lambda: cdt.forecast(model, x, y, x[:0], y[:0]),
        lambda: cdt.dare(*[torch.zeros(0, 0)] * 4),
    ):
        with pytest.raises((ValueError, IndexError)):
            ask()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.LSTM(3, 4, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.inner(x.unsqueeze(1).expand(-1, 3, -1))[0][:, -1])


class Counted(nn.Module):
    """A spectral norm that has not converged, as after a step of its own."""

    def __init__(self, make):
        super().__init__()
        torch.manual_seed(0)
        self.inner = make(nn.Linear(3, 5))
        with torch.no_grad():
            for name, buffer in self.inner.named_buffers():
                buffer.copy_(F.normalize(torch.randn_like(buffer), dim=0))
        self.head = nn.Linear(5, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.inner(x)))


MOVING = {
    "lstm": Recurrent,
    "scripted batch norm": lambda: torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))),
    "batch norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)),
    "spectral norm": lambda: Counted(nn.utils.spectral_norm),
    "spectral parametrization": lambda: Counted(nn.utils.parametrizations.spectral_norm),
}


@pytest.mark.parametrize("name", MOVING)
def test_layers_that_move_their_state_are_refused_and_stay(name):
    torch.manual_seed(1)
    x, y = torch.rand(20, 3), torch.rand(20, 1)
    calls = {
        "ntk": lambda m: cdt.ntk(m, x),
        "ntk of two": lambda m: cdt.ntk(m, x, x[:5]),
        "operator": lambda m: cdt.NTK(m, x),
        "steps": lambda m: cdt.optim.Guarded(m).step(x, y),
        "steps on a column": lambda m: cdt.optim.Guarded(m).step(x, y[:, 0]),
        "closure": lambda m: cdt.optim.Guarded(m).step(lambda: m(x) - y),
        "fit": lambda m: cdt.fit(m, x, y, progress=False),
        "path": lambda m: cdt.fit(m, x, y, goal="predict", progress=False),
        "controller": lambda m: cdt.Controller(m, x, y, lr=0.1),
        "analyze": lambda m: cdt.analyze(m, x, y, lr=0.1, trial_steps=2),
        "forecast": lambda m: cdt.forecast(m, x, y, x[:5], y[:5]),
        "jvp": lambda m: cdt.jvp(m, x, torch.ones(sum(p.numel() for p in m.parameters()))),
        "vjp": lambda m: cdt.vjp(m, x, torch.ones(20)),
        "linearize": lambda m: cdt.linearize(m, x),
    }
    model = MOVING[name]()
    buffers = {key: value.clone() for key, value in model.named_buffers()}
    state = torch.get_rng_state()
    for call, ask in calls.items():
        for _ in range(2):  # scripted modules are compiled otherwise the second time
            with pytest.raises(ValueError, match=r"call eval\(\)|Call eval\(\)"):
                ask(model)
            for key, value in model.named_buffers():
                assert torch.equal(value, buffers[key]), (call, key)
    if name != "lstm":
        assert torch.equal(torch.get_rng_state(), state)
    model.eval()
    for call, ask in calls.items():
        ask(model)


def test_kernels_between_samples_after_the_width_has_changed():
    model, x, _ = problem()
    for width in (1, 2, 3):
        model[2] = nn.Linear(16, width).double()
        for _ in range(2):
            theta = cdt.ntk(model, x, x[:4])
            assert torch.allclose(theta, cdt.ntk(model, x)[:, : 4 * width])


class Ended(nn.Module):
    def __init__(self, inner, end):
        super().__init__()
        self.inner, self.end = inner, end

    def forward(self, x):
        return self.end(self.inner, x)


def autocast(inner, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return inner(x)


def everything(model, x, y):
    count = sum(p.numel() for p in model.parameters())
    return {
        "ntk": lambda: cdt.ntk(model, x),
        "operator": lambda: cdt.NTK(model, x) @ torch.ones(y.numel(), dtype=torch.float64),
        "steps": lambda: cdt.optim.Guarded(model).step(x, y),
        "closure": lambda: cdt.optim.Guarded(model).step(lambda: model(x) - y),
        "path": lambda: cdt.fit(model, x, y, goal="predict", steps=3, progress=False),
        "analyze": lambda: cdt.analyze(model, x, y, lr=0.1, trial_steps=2),
        "jvp": lambda: cdt.jvp(model, x, torch.ones(count, dtype=next(model.parameters()).dtype)),
        "linearize": lambda: cdt.linearize(model, x).error(),
    }


def test_outputs_in_double_of_a_float_network():
    model, x, y = problem()
    model, x, y = model.float(), x.float(), y.float()
    plain = cdt.jvp(model, x, torch.ones(81))
    wide = Ended(model, lambda inner, x: inner(x).double())
    assert torch.allclose(cdt.jvp(wide, x, torch.ones(81)), plain, rtol=1e-4)
    for ask in everything(wide, x, y).values():
        ask()


def test_what_cannot_be_done_names_the_operator():
    model, x, y = problem()
    half = Ended(model.float(), autocast)
    for ask in everything(half, x.float(), y.float()).values():
        with pytest.raises(ValueError, match=r"computes in BFloat16 \(aten::.*autocast"):
            ask()
    bag = nn.Sequential(nn.EmbeddingBag(10, 4), nn.Tanh(), nn.Linear(4, 1))
    tokens = torch.randint(0, 10, (20, 3))
    asked = everything(bag, tokens, y.float())
    for name in ("ntk", "steps", "closure"):
        asked[name]()
    for name in ("jvp", "linearize"):
        with pytest.raises(ValueError, match="_embedding_bag.*Embedding and a sum"):
            asked[name]()


class Fourier(nn.Module):
    """Complex weights, kept as pairs of real ones, in a real network."""

    def __init__(self):
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.randn(3, 2, dtype=torch.float64)), nn.Linear(4, 2).double()

    def forward(self, x):
        return self.head(torch.fft.irfft(torch.fft.rfft(x) * torch.view_as_complex(self.weight), n=4))


def test_fourier_layers():
    from oracle import jacobian_kernel, relative_error

    torch.manual_seed(4)
    model, x = Fourier(), torch.randn(20, 4, dtype=torch.float64)
    assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < 1e-11
    for ask in everything(model, x, x[:, :2]).values():
        ask()


def test_constants_among_the_parameters_are_named():
    a, b, x = torch.randn(3, 4), torch.randn(4, requires_grad=True), torch.randn(6, 3)

    def function(params, x):
        return x @ params[0] + params[1]

    with pytest.warns(UserWarning, match=r"params\[0\] does not require gradients, so it counts as a constant"):
        cdt.ntk(function, x, params=[a, b])


NUMBERS = [lambda v: v, np.float32, np.float64, lambda v: np.array(v), lambda v: torch.tensor(v), lambda v: torch.tensor([v])]


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_any_kind(kind):
    model, x, y = problem()
    whole = [kind(2.0**28)] + ([np.int64(2**28), np.uint32(2**28)] if kind is NUMBERS[0] else [])
    for memory in whole:
        cdt.ntk(model, x, memory=memory)
        cdt.NTK(model, x, memory=memory)
        cdt.optim.Guarded(model, lr=kind(0.5), p=kind(0.25), q=kind(1.0), weight_decay=kind(0.0), memory=memory).step(x, y)
        cdt.fit(model, x, y, lr=kind(0.5), steps=kind(3.0), plateau=kind(0.0), memory=memory, seed=kind(1.0), reshuffle=kind(0.0), batch_size=kind(10.0), progress=False)
        cdt.analyze(model, x, y, lr=kind(0.5), p=kind(0.25), q=kind(1.0), trial_steps=kind(2.0), memory=memory)
        cdt.Controller(model, x, y, lr=kind(0.5), p=kind(0.25), q=kind(1.0), refresh_above=kind(0.5), memory=memory).augment(model(x))
        cdt.forecast(model, x, y, x, y, lr=kind(0.5), p=kind(0.25), q=kind(1.0), decay=kind(0.0), memory=memory)


def test_numbers_that_are_none_are_named():
    model, x, y = problem()
    for value in (1.5, float("nan"), float("inf"), "much", [1, 2], torch.ones(2), np.ones(0)):
        with pytest.raises((ValueError, TypeError), match="memory"):
            cdt.ntk(model, x, memory=value)
    with pytest.raises(ValueError, match="steps must be a whole number, got 2.5"):
        cdt.fit(model, x, y, steps=2.5)
    with pytest.raises(ValueError, match="memory must be a number of bytes above 0"):
        cdt.ntk(model, x, memory=-1)


def test_closures_whose_residuals_change_in_number_are_named():
    model, x, y = problem()
    calls = []

    def closure():
        calls.append(1)
        return (model(x) - y)[: 20 if len(calls) % 2 else 13]

    with pytest.raises(ValueError, match="returned 13 residuals, after 20 in the same step"):
        cdt.optim.Guarded(model).step(closure)


def test_labels_turned_round_are_refused():
    model, x, y = problem()
    controller = cdt.Controller(model, x, y, lr=0.1)
    with pytest.raises(ValueError, match=r"shape \[20, 1\].*\[1, 20\]"):
        controller.augment(model(x).T)
    assert controller.augment(model(x)[:, 0]).shape == (20,)
