"""The module's main calls on each device: against float64 on the CPU. Runs without pytest too, on machines that have none: python3 test_device.py."""

import copy
import inspect
import io
import sys

import torch
import torch.nn.functional as F
from torch import nn

import cdt
from oracle import jacobian, jacobian_kernel, relative_error

try:
    import pytest
except ImportError:
    pytest = None

HAS_CUDA = torch.cuda.is_available()
if pytest is not None:
    skip = pytest.mark.skipif(not HAS_CUDA, reason="there is no GPU here")
    pytestmark = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=skip)])


def mlp(outputs=2):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, outputs)).double()


def cnn():
    torch.manual_seed(2)
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 4 * 4, 3)).double()


def attention():
    torch.manual_seed(3)
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), nn.Flatten(), nn.Linear(40, 2)).double().eval()


def inputs(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


CASES = [(mlp, inputs(14, 4)), (cnn, inputs(5, 2, 8, 8)), (attention, inputs(6, 5, 8))]


def table(samples=40):
    """Samples that a network can learn, on the CPU."""
    x = inputs(samples, 4)
    return x, torch.stack([torch.sin(x[:, 0]) * x[:, 1], x[:, 2]], 1)


def same_device(tensor, device):
    return tensor.device.type == device


def test_kernels(device):
    for make, x in CASES:
        expected = jacobian_kernel(make(), x)
        wide = cdt.ntk(make().to(device), x.to(device))
        assert same_device(wide, device) and wide.dtype == torch.float64
        assert relative_error(wide.cpu(), expected) < 1e-11
        narrow = cdt.ntk(make().float().to(device), x.float().to(device))
        assert relative_error(narrow.cpu(), expected) < 2e-5
        cross = cdt.ntk(make().to(device), x[:2].to(device), x.to(device))
        assert relative_error(cross.cpu(), expected[: cross.shape[0]]) < 1e-11


def test_repeated_kernels(device):
    """Replayed on a GPU after the first few, at the parameters and samples of each call."""
    for make, x in CASES:
        model = make().to(device)
        for call in range(6):
            x = x + 0.1
            with torch.no_grad():
                for p in model.parameters():
                    p *= 1.1
            found = cdt.ntk(model, x.to(device), repeatable=True)
            assert relative_error(found.cpu(), jacobian_kernel(copy.deepcopy(model).cpu(), x)) < 1e-11, call


class Changing(nn.Module):
    """Computes what its settings say: none of them is a parameter or a mode of PyTorch's."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 2)
        self.register_buffer("gain", torch.ones(16))
        self.bent, self.scale, self.cut, self.turned, self.calls = False, 1.0, False, False, 0

    def forward(self, x):
        self.calls += 1
        h = self.first(x)
        if self.cut:  # the same numbers, other derivatives
            with torch.no_grad():
                h = self.first(x)
        h = torch.tanh(h) if self.bent else F.relu(h)
        if self.turned:
            h.register_hook(lambda g: 2 * g)
        return self.last(h * self.gain * self.scale)


def changes(model):
    """Each is a change of the module's function or of its derivatives."""

    def other_buffer():
        model.gain = model.gain * 1.5
        torch.cuda.empty_cache()

    def other_memory():
        model.first.weight.data = model.first.weight.data * 0.5
        torch.cuda.empty_cache()

    yield "flag", lambda: setattr(model, "bent", True)
    yield "number", lambda: setattr(model, "scale", 1.0001)
    yield "values", lambda: model.gain.mul_(3)
    yield "buffer", other_buffer
    yield "memory", other_memory
    yield "no_grad", lambda: setattr(model, "cut", True)
    yield "hook", lambda: (setattr(model, "cut", False), setattr(model, "turned", True))


def test_kernels_of_a_module_that_changes(device):
    """Without a promise a replayed kernel is the module's own, whatever has become of it."""
    x = CASES[0][1].to(device)
    for name in [name for name, _ in changes(Changing())]:
        torch.manual_seed(4)
        model = Changing().double().to(device)
        live = sum(p.sum() for p in model.parameters())  # a graph of the user's own
        for call in range(7):
            found = cdt.ntk(model, x)
            assert relative_error(found, jacobian_kernel(model, x)) < 1e-11, call
        dict(changes(model))[name]()
        for call in range(6):
            found = cdt.ntk(model, x)
            assert relative_error(found, jacobian_kernel(model, x)) < 1e-11, (name, call)
        live.backward()
        assert all(torch.equal(p.grad, torch.ones_like(p)) for p in model.parameters())


def test_replayed_kernels_call_the_module_once(device):
    model, x = Changing().double().to(device), CASES[0][1].to(device)
    calls = []
    for repeatable in [None] * 7 + [False] * 2:
        model.calls = 0
        cdt.ntk(model, x, repeatable=repeatable)
        calls.append(model.calls)
    # Made: all samples and the last one by itself. Replayed: all samples, to see that they are as recorded.
    assert calls[-2:] == [2, 2]
    assert calls[5:7] == ([1, 1] if device == "cuda" else [2, 2])
    model, calls = Changing().double().to(device), []
    for x in [CASES[0][1].to(device), CASES[0][1][:5].to(device)] * 4:
        model.calls = 0
        cdt.ntk(model, x)
        calls.append(model.calls)
    assert calls[2:] == [2] * 6  # shapes by turns are not worth recording


class Branching(nn.Module):
    """Waits for the device: it cannot be recorded."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        y = self.layer(x)
        return torch.tanh(y) if bool(self.layer.weight.sum() > 0) else y


class Reversed(torch.autograd.Function):
    """Its derivative is nowhere in its operators."""

    factor = -1.0

    @staticmethod
    def forward(ctx, h):
        return h.view_as(h)

    @staticmethod
    def backward(ctx, g):
        return Reversed.factor * g


def test_kernels_of_modules_that_cannot_be_recorded(device):
    x = CASES[0][1].to(device)
    torch.manual_seed(5)
    model = Branching().double().to(device)
    for call in range(8):
        with torch.no_grad():
            model.layer.weight.mul_(-1)
        assert relative_error(cdt.ntk(model, x), jacobian_kernel(model, x)) < 1e-11, call
    hidden, last = nn.Linear(4, 8).double().to(device), nn.Linear(8, 2).double().to(device)

    class Turning(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.last = hidden, last

        def forward(self, x):
            return self.last(torch.tanh(Reversed.apply(self.hidden(x))))

    turning = Turning()
    for call in range(8):
        Reversed.factor = -1.0 - call
        assert relative_error(cdt.ntk(turning, x), jacobian_kernel(turning, x)) < 1e-11, call


def test_kernels_whatever_the_user_s_precision(device):
    """TF32 is the user's for training; a kernel has all its digits."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        x = CASES[0][1]
        narrow = cdt.ntk(mlp().float().to(device), x.float().to(device))
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert relative_error(narrow.cpu(), jacobian_kernel(mlp(), x)) < 2e-5


def test_arrays_go_to_the_model_s_device(device):
    x = CASES[0][1]
    assert relative_error(cdt.ntk(mlp().to(device), x.numpy()).cpu(), jacobian_kernel(mlp(), x)) < 1e-11


def test_products_and_operator(device):
    model, x = mlp(), CASES[0][1]
    J = jacobian(model, x)
    moved, x_there = copy.deepcopy(model).to(device), x.to(device)
    u, v = inputs(J.shape[1]), inputs(J.shape[0])
    assert relative_error(cdt.jvp(moved, x_there, u.to(device)).cpu(), J @ u) < 1e-11
    assert relative_error(cdt.vjp(moved, x_there, v.to(device)).cpu(), J.t() @ v) < 1e-11
    theta = cdt.NTK(moved, x_there)
    assert relative_error((theta @ v.to(device)).cpu(), J @ (J.t() @ v)) < 1e-11
    assert relative_error(torch.from_numpy(theta @ v.numpy()), J @ (J.t() @ v)) < 1e-11
    values, vectors = theta.eigsh(3)
    assert same_device(vectors, device)
    assert relative_error(values.cpu(), torch.linalg.eigvalsh(J @ J.t())[-3:]) < 1e-8
    local = cdt.linearize(moved, x_there)
    assert relative_error(local(u.to(device)).cpu(), model(x).detach().reshape(-1) + J @ u) < 1e-11


def test_analysis(device):
    x, y = table()
    expected, found = cdt.analyze(mlp(), x, y, lr=0.1), cdt.analyze(mlp().to(device), x.to(device), y.to(device), lr=0.1)
    for name in ("lambda_max", "lr_max", "radius_cdt"):
        assert abs(found[name] - expected[name]) <= 1e-9 * abs(expected[name]), name
    best = [cdt.forecast(mlp().to(where), x[:30].to(where), y[:30].to(where), x[30:].to(where), y[30:].to(where)).best for where in ("cpu", device)]
    assert best[0]["method"] == best[1]["method"] and abs(best[0]["val_loss"] - best[1]["val_loss"]) <= 1e-8 * best[0]["val_loss"]


def controlled(device, loss, steps=30):
    x, y = table()
    labels = y.argmax(1) if loss == "cross-entropy" else y
    model, x, labels = mlp().to(device), x.to(device), labels.to(device)
    controller = cdt.Controller(model, x, labels, lr=1.0, loss=loss, refresh_above=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    of = F.cross_entropy if loss == "cross-entropy" else F.mse_loss
    first = controller.augment(model(x))
    for _ in range(steps):
        y_hat = model(x)
        loss_now = of(y_hat, controller.augment(y_hat))
        optimizer.zero_grad()
        loss_now.backward()
        optimizer.step()
    return controller, first, of(model(x), labels).item(), of(mlp()(x.cpu()), labels.cpu()).item()


def test_controller(device):
    for loss in ("mse", "cross-entropy"):
        controller, first, after, before = controlled(device, loss)
        reference, expected, _, _ = controlled("cpu", loss, steps=0)
        assert same_device(first, device) and same_device(controller.gain, device)
        assert relative_error(first.cpu(), expected) < 1e-8
        assert after < 0.5 * before, loss
        assert "refreshes" in repr(controller)


def test_guarded_steps(device):
    x, y = table()
    losses = {}
    for where in ("cpu", device):
        model = mlp().to(where)
        opt = cdt.optim.Guarded(model)
        losses[where] = [opt.step(x.to(where), y.to(where)).item() for _ in range(6)]
        assert all(same_device(p, where) for p in model.parameters())
    assert losses[device][-1] < 0.1 * losses[device][0]
    # Steps are chosen by comparing losses: the first few are the same to rounding on any device.
    for mine, theirs in zip(losses[device][:3], losses["cpu"][:3]):
        assert abs(mine - theirs) <= 1e-6 * theirs


def test_guarded_goes_on_from_a_file(device):
    x, y = (part.to(device) for part in table())

    def made():
        model = mlp().to(device)
        return model, cdt.optim.Guarded(model)

    model, opt = made()
    for _ in range(3):
        opt.step(x, y)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, map_location=device)
    other, again = made()
    other.load_state_dict(saved["model"])
    again.load_state_dict(saved["opt"])
    for _ in range(2):  # to the same bits where sums have one order; a GPU's may not
        expected, found = opt.step(x, y).item(), again.step(x, y).item()
        assert abs(found - expected) <= (0 if device == "cpu" else 1e-9) * expected


def test_residuals_of_a_closure(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1)).double().to(device)
    t = torch.linspace(0, 1, 20, dtype=torch.float64, device=device).unsqueeze(1).requires_grad_()
    start = torch.zeros(1, 1, dtype=torch.float64, device=device)

    def residuals():  # u′ = −u, u(0) = 1
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return torch.cat([du + u, model(start) - 1])

    opt = cdt.optim.Guarded(model, p=1e-8)
    losses = [opt.step(residuals).item() for _ in range(15)]
    assert losses[-1] < 1e-6 * losses[0]
    with torch.no_grad():
        assert (model(t) - torch.exp(-t)).abs().max() < 1e-2


def test_fit(device):
    x, y = (part.float().to(device) for part in table())
    for goal in ("fit", "predict"):
        model = mlp().float().to(device)
        before = F.mse_loss(model(x), y).item()
        result = cdt.fit(model, x, y, goal=goal, steps=12, progress=False)
        assert F.mse_loss(model(x), y).item() < 0.3 * before, result
        assert all(same_device(p, device) for p in model.parameters())


def main():
    devices = ["cpu", "cuda"] if HAS_CUDA else ["cpu"]
    if not HAS_CUDA:
        print("there is no GPU here: the CPU alone")
    tests = [function for name, function in sorted(globals().items()) if name.startswith("test_") and inspect.isfunction(function)]
    for device in devices:
        for test in tests:
            test(device)
            print(f"passed: {test.__name__} on {device}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
