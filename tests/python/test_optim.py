"""cdt.optim.Guarded and cdt.fit."""

import io
import json
import math
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cdt


def problem(dtype=torch.float32, samples=40):
    torch.manual_seed(1)
    x = torch.rand(samples, 2, dtype=dtype) * 2 - 1
    y = (torch.sin(3 * x[:, 0]) + x[:, 1] ** 2).unsqueeze(1)
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)).to(dtype), x, y


def test_steps_descend_without_a_rate():
    model, x, y = problem()
    opt = cdt.optim.Guarded(model)
    losses = []
    for _ in range(25):
        before = F.mse_loss(model(x), y).item()
        losses.append(opt.step(x, y).item())
        assert losses[-1] == pytest.approx(before, rel=1e-4)  # the loss before the step
        if opt.outcome is not None:
            break
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in zip(losses, losses[1:]))
    assert F.mse_loss(model(x), y).item() < 1e-3 * losses[0]


def test_steps_are_fit_s_own():
    """The same steps one by one as in one go: no second loop."""
    model, x, y = problem(torch.float64)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    opt = cdt.optim.Guarded(model)
    losses = [opt.step(x, y).item() for _ in range(6)]
    ended = [p.detach().clone() for p in model.parameters()]
    model.load_state_dict(start)
    result = cdt.fit(model, x, y, steps=6, progress=False)
    assert result.history["train_loss"][:6].tolist() == losses
    assert all(torch.equal(p, e) for p, e in zip(model.parameters(), ended))


def test_saved_and_loaded_goes_on_to_the_same_bits():
    model, x, y = problem()
    opt = cdt.optim.Guarded(model, lr=0.5)  # short steps, so that the kernel of the first serves the next ones
    for _ in range(3):
        opt.step(x, y)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
    expected = [opt.step(x, y).item() for _ in range(3)]

    file.seek(0)
    saved = torch.load(file)
    other = problem()[0]
    resumed = cdt.optim.Guarded(other)
    other.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["opt"])
    assert resumed.steps == 3
    assert [resumed.step(x.clone(), y.clone()).item() for _ in range(3)] == expected
    # Without the linearization the steps would be others.
    other.load_state_dict(saved["model"])
    fresh = cdt.optim.Guarded(other, lr=0.5)
    assert [fresh.step(x, y).item() for _ in range(3)] != expected
    with pytest.raises(ValueError, match="state_dict of a cdt.optim.Guarded"):
        resumed.load_state_dict({"state": {}})
    with pytest.raises(ValueError, match="belongs to another model"):
        cdt.optim.Guarded(nn.Linear(2, 3)).load_state_dict(saved["opt"])


def test_weights_that_others_moved_are_noticed():
    model, x, y = problem()
    opt = cdt.optim.Guarded(model)
    opt.step(x, y)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    before = F.mse_loss(model(x), y).item()
    assert opt.step(x, y).item() == pytest.approx(before, rel=1e-4)


def test_samples_are_known_by_their_values():
    """Equal ones, arrays too, go on with the linearization that is there; changed ones do not."""
    losses = []
    for repeat in (lambda a: a, torch.clone, lambda a: a.numpy().copy()):
        model, x, y = problem()
        opt = cdt.optim.Guarded(model)
        losses.append([opt.step(repeat(x), repeat(y)).item() for _ in range(5)])
    assert losses[0] == losses[1] == losses[2]
    x += 0.1  # in place
    before = F.mse_loss(model(x), y).item()
    assert opt.step(x, y).item() == pytest.approx(before, rel=1e-4)


def test_mini_batches():
    model, x, y = problem(samples=256)
    opt = cdt.optim.Guarded(model)
    before = F.mse_loss(model(x), y).item()
    for _ in range(4):
        for rows in torch.randperm(256).split(64):
            batch, labels = x[rows], y[rows]
            loss = F.mse_loss(model(batch), labels).item()
            assert opt.step(batch, labels).item() == pytest.approx(loss, rel=1e-4)
            assert F.mse_loss(model(batch), labels).item() <= loss * (1 + 1e-6)
    assert F.mse_loss(model(x), y).item() < 1e-3 * before


def test_classes():
    torch.manual_seed(2)
    x = torch.randn(60, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = cdt.optim.Guarded(model, "cross_entropy")  # or with a hyphen, as the program has it
    for _ in range(15):
        opt.step(x, y)
    assert (model(x).argmax(1) == y).float().mean() > 0.97


def test_token_numbers():
    """Inputs that an embedding looks things up by are whole numbers, and stay so."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Embedding(10, 6), nn.Flatten(), nn.Linear(18, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randint(0, 10, (40, 3))
    y = (x[:, :1] == x[:, 1:2]).float() + 0.1 * x[:, 2:]
    before = F.mse_loss(model(x), y).item()
    assert cdt.analyze(model, x, y)["samples"] == 40
    assert cdt.Controller(model, x, y, lr=0.1).augment(model(x)).shape == y.shape
    opt = cdt.optim.Guarded(model)
    for _ in range(15):
        opt.step(x, y)
    assert F.mse_loss(model(x), y).item() < 0.05 * before


def test_residuals_of_a_closure():
    """Rosenbrock's valley as residuals: (1 − a, 10(b − a²)), whose minimum everybody knows."""
    point = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
    opt = cdt.optim.Guarded(lambda params, x: params[0], params=[point], loss="sse")
    loss = None
    for _ in range(60):
        loss = opt.step(lambda: torch.stack([1 - point[0], 10 * (point[1] - point[0] ** 2)]))
    assert loss.item() < 1e-16
    assert torch.allclose(point.detach(), torch.ones(2, dtype=torch.float64), atol=1e-8)


def test_closures_may_draw_other_points():
    """The loss that a step returns, and lowers, is of the points that this step has drawn."""
    model, x, y = problem(torch.float64, samples=80)
    opt = cdt.optim.Guarded(model)
    for rows in torch.randperm(80).split(20):
        before = F.mse_loss(model(x[rows]), y[rows]).item()
        assert opt.step(lambda: model(x[rows]) - y[rows]).item() == pytest.approx(before, rel=1e-9)
        assert F.mse_loss(model(x[rows]), y[rows]).item() < before


def test_closure_and_samples_agree():
    """y_hat − y as residuals takes the steps that samples do, though its Jacobian is found otherwise."""
    losses = {}
    for closure in (False, True):
        model, x, y = problem(torch.float64)
        opt = cdt.optim.Guarded(model)
        losses[closure] = [opt.step(lambda: model(x) - y).item() if closure else opt.step(x, y).item() for _ in range(4)]
    assert np.allclose(losses[True], losses[False], rtol=1e-6)


def test_residuals_without_batched_products():
    """An operator that vmap does not know goes one vector after another."""

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * torch.from_numpy(3 * x.detach().numpy() ** 2)  # leaves PyTorch: nothing to batch

    a = torch.nn.Parameter(torch.tensor([1.5, 0.5], dtype=torch.float64))
    opt = cdt.optim.Guarded(lambda params, x: params[0], params=[a])
    for _ in range(40):
        loss = opt.step(lambda: Cube.apply(a) - 8)
    assert loss.item() < 1e-12
    assert torch.allclose(a.detach(), torch.full((2,), 2.0, dtype=torch.float64))


def test_rows_that_disagree_with_autograd_are_an_error():
    class Drifting(torch.autograd.Function):
        """Its backward pass is another one each time."""

        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            Drifting.calls += 1
            return g * Drifting.calls

    model, x, y = problem()
    with pytest.raises(RuntimeError, match="do not agree with autograd"):
        cdt.optim.Guarded(model).step(lambda: Drifting.apply(model(x)) - y)


@pytest.mark.parametrize("layer", [nn.Dropout(0.2), nn.BatchNorm1d(8)])
def test_closures_in_training_mode_are_refused(layer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), layer, nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(20, 3)
    opt = cdt.optim.Guarded(model)
    with pytest.raises(ValueError, match="in training mode.*call eval"):
        opt.step(lambda: model(x) - x[:, :1])
    model.eval()
    assert opt.step(lambda: model(x) - x[:, :1]).isfinite()


def test_closures_that_return_other_things():
    model, x, y = problem()
    opt = cdt.optim.Guarded(model)
    with pytest.raises(ValueError, match="must return the residuals as one tensor, but returned float"):
        opt.step(lambda: 1.0)
    with pytest.raises(ValueError, match="x and y, or a function"):
        opt.step(x)
    with pytest.raises(ValueError, match="more than memory=0 MiB"):
        cdt.optim.Guarded(model, memory=1000).step(lambda: model(x) - y)


def test_fit_reports_and_calls_back():
    model, x, y = problem()
    rows = []
    result = cdt.fit(model, x.numpy(), y.numpy(), stop_loss=1e-4, callback=rows.append, progress=False)
    assert result.outcome == "target" and result.train_loss <= 1e-4
    assert [row["step"] for row in rows] == result.history["step"].tolist() == list(range(len(rows)))
    assert F.mse_loss(model(x), y).item() == pytest.approx(result.train_loss, rel=1e-4)
    stopped = cdt.fit(problem()[0], x, y, callback=lambda row: row["step"] == 2, progress=False)
    assert stopped.outcome == "stopped" and stopped.steps == 3 and "as the callback asked" in repr(stopped)
    pytest.importorskip("matplotlib").use("Agg")
    assert len(result.plot().lines) == 1


def test_a_bar_shows_how_far_it_is(monkeypatch):
    bars = []

    class Bar:  # what is used of tqdm's
        def __init__(self, total, **_):
            self.total, self.steps, self.said, self.closed = total, 0, {}, False
            bars.append(self)

        def set_postfix(self, refresh=True, **said):
            self.said = said

        def update(self):
            self.steps += 1

        def close(self):
            self.closed = True

    package = types.ModuleType("tqdm")
    package.auto = types.ModuleType("tqdm.auto")
    package.auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", package)
    monkeypatch.setitem(sys.modules, "tqdm.auto", package.auto)
    model, x, y = problem()
    result = cdt.fit(model, x, y, steps=5, progress=True)
    (bar,) = bars
    assert bar.total == 5 and bar.steps == len(result.history["step"]) and "loss" in bar.said and bar.closed
    with pytest.raises(KeyError):
        cdt.fit(model, x, y, steps=5, progress=True, callback=lambda row: row["no such"])
    assert bars[1].closed
    cdt.fit(model, x, y, steps=2, progress=False)
    cdt.fit(model, x, y, steps=2)  # nobody watches: no terminal, no notebook
    assert len(bars) == 2


@pytest.mark.parametrize("method", ["gd", "adam", "cdt", "lbfgs", "momentum", "path"])
def test_methods(method):
    model, x, y = problem()
    before = F.mse_loss(model(x), y).item()
    result = cdt.fit(model, x, y, method=method, steps=30, progress=False)
    assert result.train_loss < before
    assert F.mse_loss(model(x), y).item() == pytest.approx(result.train_loss, rel=1e-4)


def test_fit_to_predict():
    torch.manual_seed(3)
    x = torch.rand(120, 3, dtype=torch.float64) * 2 - 1
    clean = torch.sin(2 * x[:, :1]) * x[:, 1:2]
    y, new = clean + 0.2 * torch.randn_like(clean), torch.rand(400, 3, dtype=torch.float64) * 2 - 1
    errors = {}
    for goal in ("fit", "predict"):
        torch.manual_seed(4)
        model = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1)).double()
        result = cdt.fit(model, x, y, goal=goal, progress=False)
        errors[goal] = F.mse_loss(model(new), torch.sin(2 * new[:, :1]) * new[:, 1:2]).item()
    assert result.best_step >= 1 and math.isfinite(result.val_loss)
    assert errors["predict"] < 0.5 * errors["fit"]  # noise is not learned by heart


def test_fit_to_predict_ends_with_all_rows():
    """As a path from the same start on all of them, to the point that held-out rows have picked."""
    model, x, y = problem(torch.float64)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    result = cdt.fit(model, x, y, goal="predict", progress=False)
    ended = [p.detach().clone() for p in model.parameters()]
    assert result.best_step >= 1
    model.load_state_dict(start)
    cdt.fit(model, x, y, method="path", steps=result.best_step, progress=False)
    assert all(torch.equal(p, e) for p, e in zip(model.parameters(), ended))
    model.load_state_dict(start)
    cdt.fit(model, x, y, goal="predict", refit=False, progress=False)
    assert not all(torch.equal(p, e) for p, e in zip(model.parameters(), ended))


def test_an_interrupt_leaves_a_whole_model():
    model, x, y = problem()

    def callback(row):
        if row["step"] == 3:
            raise KeyboardInterrupt

    result = cdt.fit(model, x, y, callback=callback, progress=False)
    assert result.outcome == "interrupted" and result.steps == 4
    assert F.mse_loss(model(x), y).item() == pytest.approx(result.train_loss, rel=1e-4)
    assert result.train_loss < result.history["train_loss"][0]


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"method": "adam", "p": 0.5}, 'method "adam" does not read p'),
        ({"method": "gd", "q": 2.0}, 'method "gd" does not read q.*"gd-matched"'),
        ({"method": "path", "shape": 0.1}, 'method "path" does not read shape'),
        ({"method": "path", "schedule": "inverse"}, 'method "path" does not read schedule'),
        ({"method": "path", "weight_decay": 0.1}, 'method "path" does not read weight_decay'),
        ({"method": "gd", "relinearize": "every:2"}, 'method "gd" does not read relinearize'),
        ({"goal": "predict", "lr": 0.1}, 'method "path" does not read lr'),
        ({"method": "cdt", "period": 5}, "period would do nothing here: it needs schedule step"),
        ({"method": "cdt", "schedule": "cosine", "decay": 0.5}, "decay would do nothing here"),
        ({"smoothing": 0.1}, "smoothing would do nothing here: it needs loss cross-entropy"),
        ({"method": "adam", "reshuffle": True}, "reshuffle needs batches"),
        ({"refit": False}, "refit is for goal"),
        ({"goal": "predict", "refit": True, "x_val": torch.rand(4, 2), "y_val": torch.rand(4, 1)}, "refit is for goal"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(settings, words):
    model, x, y = problem()
    start = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(ValueError, match=words):
        cdt.fit(model, x, y, progress=False, **settings)
    assert all(torch.equal(p, s) for p, s in zip(model.parameters(), start))


def test_a_decay_alone_is_a_schedule():
    model, x, y = problem()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    rates = {}
    for decay in (None, 0.5):
        model.load_state_dict(start)
        rates[decay] = cdt.fit(model, x, y, method="cdt", lr=0.1, steps=4, decay=decay, progress=False).history["learning_rate"]
    assert rates[None][:4] == pytest.approx([0.1] * 4)
    assert rates[0.5][:4] == pytest.approx([0.1 / (1 + 0.5 * k) for k in range(4)])


def test_unknown_settings_are_named():
    model, x, y = problem()
    with pytest.raises(TypeError, match="unknown setting 'learning_rate'"):
        cdt.fit(model, x, y, learning_rate=1)
    with pytest.raises(ValueError, match="steps must be a whole number .*, got 'many'"):
        cdt.fit(model, x, y, steps="many")
    with pytest.raises(ValueError, match="method"):
        cdt.fit(model, x, y, method="newton")
    with pytest.raises(ValueError, match='expected a name, such as "mse".*got a MSELoss'):
        cdt.fit(model, x, y, loss=nn.MSELoss())
    with pytest.raises(ValueError, match="goal must be"):
        cdt.fit(model, x, y, goal="win")


def test_fit_is_the_program_s(tmp_path):
    """The same network on the same rows ends where `cdt train` does."""
    program = os.environ.get("CDT_PROGRAM", "")
    if not pathlib.Path(program).is_file():
        pytest.skip("the program is not built")
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(60, 2))
    y = np.sin(3 * x[:, 0]) + x[:, 1] ** 2
    np.savetxt(tmp_path / "table.csv", np.column_stack([x, y]), delimiter=",", header="a,b,y", comments="", fmt="%.17g")
    flags = ["--target", "y", "--goal", "fit", "--hidden", "32", "--activation", "tanh", "--dtype", "float64", "--train-fraction", "1", "--scale", "none",
             "--target-scale", "none", "--no-analysis", "--quiet", "--threads", "1"]  # fmt: skip
    for steps in ("0", "8"):
        subprocess.run([program, "train", "table.csv", *flags, "--steps", steps, "--out", steps], cwd=tmp_path, check=True, timeout=300)
    start = _safetensors(tmp_path / "0" / "model.safetensors")
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)).double()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), start):
            parameter.copy_(value)
    result = cdt.fit(model, x, y[:, None], steps=8, progress=False)
    theirs = np.genfromtxt(tmp_path / "8" / "history.csv", delimiter=",", names=True)
    assert theirs["train_loss"][-1] < 1e-2 * theirs["train_loss"][0]
    # Rows stand in another order there: rounding differs, and steps amplify it.
    assert np.allclose(result.history["train_loss"], theirs["train_loss"], rtol=1e-6)
    for mine, other in zip(model.parameters(), _safetensors(tmp_path / "8" / "model.safetensors")):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-5)


def _safetensors(path):
    """The weights and biases of a network with one hidden layer, as a file of the program has them."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            tensors[name] = torch.from_numpy(np.frombuffer(content[8 + length + first : 8 + length + last], dtype=np.float64).reshape(entry["shape"]).copy())
    return [tensors[name] for name in sorted(tensors, key=lambda n: (n.split(".")[-2], n.split(".")[-1] == "bias"))]


def test_what_is_no_model_and_no_residuals_is_named():
    model, x, y = nn.Linear(3, 1), torch.randn(4, 3), torch.randn(4, 1)
    with pytest.raises(ValueError, match="expected the module itself"):
        cdt.optim.Guarded(model.parameters())
    with pytest.raises(ValueError, match="must return the residuals.*not the loss itself"):
        cdt.optim.Guarded(model).step(lambda: F.mse_loss(model(x), y))


def test_equal_rows_are_held_out_together():
    for rows, words in ((9, "all 9 are equal"), (4, "there are only 4")):
        with pytest.raises(ValueError, match=words):
            cdt.fit(nn.Linear(2, 1), torch.ones(rows, 2), torch.ones(rows, 1), goal="predict", progress=False)
    # Noise that comes three times is not learned by heart.
    torch.manual_seed(1)
    x = torch.randn(60, 3)
    y = torch.randn(60, 1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    result = cdt.fit(model, x.repeat(3, 1), y.repeat(3, 1), goal="predict", progress=False)
    assert result.val_loss > 0.6


def test_a_row_of_the_callback_is_of_the_parameters_before_its_step():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x = torch.randn(20, 2)
    y = x.prod(1, keepdim=True)
    loss = lambda: torch.nn.functional.mse_loss(model(x), y).item()  # noqa: E731
    seen = [loss()]
    rows = []

    def look(row):
        rows.append(row)
        seen.append(loss())

    cdt.fit(model, x, y, method="gd", lr=0.05, steps=5, callback=look, progress=False)
    for row, before in zip(rows, seen):
        assert row["train_loss"] == pytest.approx(before, rel=1e-5)
    assert seen[1] < seen[0]


def test_residuals_go_on_to_the_same_bits_after_loading():
    model, x, y = problem()

    def closure():
        return model(x) - y

    opt = cdt.optim.Guarded(model)
    opt.step(closure)
    saved, weights = opt.state_dict(), {name: value.clone() for name, value in model.state_dict().items()}
    losses = [opt.step(closure).item() for _ in range(4)]
    ended = [p.detach().clone() for p in model.parameters()]
    model.load_state_dict(weights)
    again = cdt.optim.Guarded(model)
    again.load_state_dict(saved)
    assert [again.step(closure).item() for _ in range(4)] == losses
    assert all(torch.equal(p, e) for p, e in zip(model.parameters(), ended))


def test_steps_on_residuals_and_on_samples_take_turns():
    model, x, y = problem()
    opt = cdt.optim.Guarded(model)
    losses = [opt.step(*given).item() for given in ((lambda: model(x) - y,), (x, y), (lambda: model(x) - y,), (lambda: model(x) - y,), (x, y))]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
