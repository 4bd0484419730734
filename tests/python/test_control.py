"""Controllers, analysis, operators and products: against dense matrices, SciPy and the program."""

import json
import math
import re
import os
import pathlib
import subprocess

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import cdt
from oracle import jacobian, jacobian_kernel, relative_error


def problem(dtype=torch.float64, samples=12, outputs=2):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, outputs)).to(dtype)
    return model, torch.randn(samples, 3, dtype=dtype), torch.randn(samples, outputs, dtype=dtype)


def test_operator():
    model, x, _ = problem()
    theta, dense = cdt.NTK(model, x), jacobian_kernel(model, x)
    assert theta.shape == (24, 24)
    V = torch.randn(24, 3, dtype=torch.float64)
    assert relative_error(theta @ V, dense @ V) < 1e-11
    assert relative_error(torch.from_numpy(theta @ V[:, 0].numpy()), dense @ V[:, 0]) < 1e-11
    assert theta.trace() == pytest.approx(dense.trace().item(), rel=1e-11)
    values, vectors = theta.eigsh(4)
    assert torch.allclose(values, torch.linalg.eigvalsh(dense)[-4:], rtol=1e-9)
    assert relative_error(dense @ vectors, vectors * values) < 1e-8


def test_operator_in_scipy():
    linalg = pytest.importorskip("scipy.sparse.linalg")
    model, x, _ = problem()
    values = linalg.eigsh(cdt.NTK(model, x).to_scipy(), k=3, return_eigenvectors=False)
    assert np.allclose(np.sort(values), np.linalg.eigvalsh(jacobian_kernel(model, x).numpy())[-3:], rtol=1e-9)


def test_inputs_come_in_the_model_s_dtype():
    """As in training: by every call."""
    model, x, y = problem(torch.float32)
    wide = x.double()
    u, v = torch.randn(sum(p.numel() for p in model.parameters())), torch.randn(24)
    for call in (
        lambda x: cdt.ntk(model, x),
        lambda x: cdt.ntk(model, x, x),
        lambda x: cdt.NTK(model, x) @ v,
        lambda x: cdt.jvp(model, x, u),
        lambda x: cdt.vjp(model, x, v),
        lambda x: cdt.linearize(model, x)(),
        lambda x: cdt.Controller(model, x, y, lr=0.1).gain,
        lambda x: torch.tensor(cdt.analyze(model, x, y)["lambda_max"]),
    ):
        assert torch.equal(call(wide), call(x))


def test_products():
    model, x, y = problem()
    J = jacobian(model, x)
    u = [torch.randn_like(p) for p in model.parameters()]
    flat = torch.cat([part.reshape(-1) for part in u])
    assert relative_error(cdt.jvp(model, x, u), J @ flat) < 1e-11
    assert relative_error(cdt.jvp(model, x, flat), J @ flat) < 1e-11
    named = {name: part for (name, _), part in zip(model.named_parameters(), u)}
    assert relative_error(cdt.jvp(model, x, named), J @ flat) < 1e-11
    assert relative_error(cdt.vjp(model, x, y), J.t() @ y.reshape(-1)) < 1e-11
    with pytest.raises(ValueError, match="u must be a vector of"):
        cdt.jvp(model, x, u[:2])


def test_linearization():
    model, x, _ = problem()
    J, start = jacobian(model, x), model(x).detach().reshape(-1)
    local = cdt.linearize(model, x)
    moves = [0.01 * torch.randn_like(p) for p in model.parameters()]
    with torch.no_grad():
        for parameter, move in zip(model.parameters(), moves):
            parameter += move
    flat = torch.cat([move.reshape(-1) for move in moves])
    assert relative_error(local.displacement(), flat) < 1e-12
    assert relative_error(local(), start + J @ flat) < 1e-11
    assert relative_error(local(moves), start + J @ flat) < 1e-11
    assert local.error() == pytest.approx((model(x).detach().reshape(-1) - start - J @ flat).norm().item(), rel=1e-6)


@pytest.mark.parametrize("outputs", [1, 5])  # by factors, and by the graph
def test_linearization_is_the_jacobian(outputs):
    torch.manual_seed(outputs)
    model = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.Tanh(), torch.nn.Linear(7, outputs)).double()
    x = torch.randn(6, 3, dtype=torch.float64)
    J, start = jacobian(model, x), model(x).detach().reshape(-1)
    local = cdt.linearize(model, x)
    n, P = J.shape
    U, V, S = torch.randn(P, 2).double(), torch.randn(n, 2).double(), torch.randn(6, outputs, 2).double()
    rows = torch.block_diag(*S).t() @ J
    for moved in (False, True):
        if moved:  # it stays where it was made
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter += 0.3 * torch.randn_like(parameter)
        before = [p.detach().clone() for p in model.parameters()]
        assert torch.equal(local.outputs, start)
        assert relative_error(local.push_forward(U), J @ U) < 1e-11
        assert relative_error(local.push_forward(U[:, 0]), J @ U[:, 0]) < 1e-11
        shaped = [part.reshape(p.shape) for p, part in zip(model.parameters(), U[:, 0].split([p.numel() for p in model.parameters()]))]
        assert relative_error(local.push_forward(shaped), J @ U[:, 0]) < 1e-11
        assert relative_error(local.pull_back(V), J.t() @ V) < 1e-11
        assert relative_error(local.pull_back(V[:, 1]), J.t() @ V[:, 1]) < 1e-11
        assert torch.allclose((V * local.push_forward(U)).sum(), (U * local.pull_back(V)).sum(), rtol=1e-10)
        assert relative_error(local.kernel(), J @ J.t()) < 1e-11
        assert relative_error(local.gram(), J.t() @ J) < 1e-11
        assert relative_error(local.gram(S), rows.t() @ rows) < 1e-11
        assert local.trace() == pytest.approx(J.square().sum().item(), rel=1e-11)
        assert all(torch.equal(p, mine) for p, mine in zip(model.parameters(), before))
    for wrong in (lambda: local.push_forward(U[:3]), lambda: local.pull_back(V[:3]), lambda: local.gram(S[:2])):
        with pytest.raises(ValueError):
            wrong()


def test_gain_is_that_of_scalar_problems():
    """K of the loop e⁺ = (I − S)e + S y_u for Q = qI, R = pI: each eigenvector is a scalar problem, whose Riccati equation is a quadratic one."""
    model, x, y = problem()
    lr, p, q = 0.3, 0.2, 1.5
    controller = cdt.Controller(model, x, y, lr=lr, p=p, q=q)
    n = y.numel()
    s, V = torch.linalg.eigh(lr * 2 / n * jacobian_kernel(model, x))
    b = p * (1 - (1 - s) ** 2) - q * s**2
    P = (-b + torch.sqrt(b**2 + 4 * s**2 * q * p)) / (2 * s**2)  # P = q + (1−s)²P − ((1−s)sP)²/(p + s²P)
    k = s * P * (1 - s) / (p + s**2 * P)
    K = V @ torch.diag(k) @ V.t()
    assert relative_error(controller.gain, K) < 1e-9
    y_hat = model(x)
    augmented = controller.augment(y_hat)
    assert augmented.shape == y.shape and not augmented.requires_grad
    assert relative_error(augmented.reshape(-1), y.reshape(-1) - K @ (y_hat.detach() - y).reshape(-1)) < 1e-9
    assert controller.closed_loop_radius == pytest.approx((1 - s * (1 + k)).abs().max().item(), rel=1e-9)


@pytest.mark.parametrize("loss", ["mse", "sse", "cross-entropy"])
def test_drift_is_the_step_s_distance_from_the_local_model(loss):
    """The local model's step by a Jacobian and autograd's gradient of PyTorch's own loss."""
    model, x, y = problem(outputs=3)
    labels = y.argmax(1) if loss == "cross-entropy" else y
    of = {"mse": F.mse_loss, "sse": lambda y_hat, y: 0.5 * ((y_hat - y) ** 2).sum(), "cross-entropy": F.cross_entropy}[loss]
    lr = {"mse": 0.3, "sse": 0.01, "cross-entropy": 0.3}[loss]
    controller = cdt.Controller(model, x, labels, lr=lr, loss=loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    J, y_hat = jacobian(model, x), model(x)
    augmented = controller.augment(y_hat)
    assert controller.drift is None
    leaf = y_hat.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(of(leaf, augmented), leaf)
    of(y_hat, augmented).backward()
    optimizer.step()
    after = model(x)
    controller.augment(after)
    taken = (after - y_hat).detach().reshape(-1)
    expected = (taken + lr * J @ (J.t() @ gradient.reshape(-1))).norm() / taken.norm()
    assert 1e-4 < expected < 1
    assert controller.drift == pytest.approx(expected.item(), rel=1e-7)
    assert "0 refreshes, drift" in repr(controller)


def test_a_linear_model_does_not_drift():
    torch.manual_seed(0)
    model, x, y = nn.Linear(5, 1).double(), torch.randn(9, 5, dtype=torch.float64), torch.randn(9, dtype=torch.float64)
    controller = cdt.Controller(model, x, y, lr=2.0, refresh_above=1e-6)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    for _ in range(5):
        y_hat = model(x).squeeze(1)
        loss = F.mse_loss(y_hat, controller.augment(y_hat))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert controller.drift < 1e-9 and controller.refreshes == 0


def test_refreshes_keep_a_loop_that_drift_would_lose():
    def train(**settings):
        torch.manual_seed(0)
        x = torch.randn(60, 4)
        y = torch.sin(2 * x[:, 0]) * x[:, 1]
        model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        controller = cdt.Controller(model, x, y, lr=3.0, **settings)
        optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
        for _ in range(100):
            y_hat = model(x).squeeze(1)
            loss = F.mse_loss(y_hat, controller.augment(y_hat))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return F.mse_loss(model(x).squeeze(1), y).item(), controller.refreshes

    with pytest.raises(RuntimeError, match="diverged at lr=3 after 0 refreshes.*refresh_above"):
        train()
    loss, refreshes = train(refresh_above=0.5)
    assert loss < 1e-3 and 0 < refreshes < 100


def steps_with(optimizer, controller, model, x, count, order=lambda: slice(None)):
    for _ in range(count):
        y_hat = model(x[order()])
        loss = F.mse_loss(y_hat, controller.augment(y_hat))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("wrong", ["momentum", "order"])
def test_another_loop_than_promised_is_said(wrong):
    torch.manual_seed(0)
    x = torch.randn(60, 4)
    y = (torch.sin(2 * x[:, 0]) * x[:, 1]).unsqueeze(1)
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
    controller = cdt.Controller(model, x, y, lr=0.3, refresh_above=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9 if wrong == "momentum" else 0)
    order = (lambda: torch.randperm(60)) if wrong == "order" else (lambda: slice(None))
    with pytest.warns(UserWarning, match="each of the last 10 steps.*without momentum.*in the order of x"):
        steps_with(optimizer, controller, model, x, 15, order)


def test_the_rate_can_be_scheduled():
    torch.manual_seed(0)
    x = torch.randn(60, 4)
    y = (torch.sin(2 * x[:, 0]) * x[:, 1]).unsqueeze(1)
    model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1)).double()
    x, y = x.double(), y.double()
    controller = cdt.Controller(model, x, y, lr=0.3)
    controller.lr = 0.1
    assert controller.refreshes == 1 and controller.drift is None
    assert torch.equal(controller.gain, cdt.Controller(model, x, y, lr=0.1).gain)
    with pytest.raises(ValueError, match="lr must be a number above 0, got -1"):
        controller.lr = -1


@pytest.mark.parametrize("loss, lr", [("mse", 2.0), ("cross-entropy", 20.0)])
def test_nothing_is_designed_anew_at_the_minimum(loss, lr):
    """There outputs move by rounding alone, which no design foresees."""
    torch.manual_seed(0)
    x = torch.randn(12, 4)
    y = x[:, :3].argmax(1) if loss == "cross-entropy" else torch.randn(12, 1)
    model = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 3 if loss == "cross-entropy" else 1))
    controller = cdt.Controller(model, x, y, lr=lr, loss=loss, refresh_above=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    of = F.cross_entropy if loss == "cross-entropy" else F.mse_loss
    for _ in range(300):
        y_hat = model(x)
        step = of(y_hat, controller.augment(y_hat))
        optimizer.zero_grad()
        step.backward()
        optimizer.step()
    assert 0 < controller.refreshes < 20


def test_smoothing():
    """Logits are steered to where the softmax gives the smoothed labels."""
    ends = {}
    for smoothing in (None, 0.02):
        torch.manual_seed(0)
        x = torch.randn(30, 4)
        y = x[:, :3].argmax(1)
        model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 3))
        controller = cdt.Controller(model, x, y, lr=3.0, loss="cross-entropy", refresh_above=0.5, smoothing=smoothing)
        optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
        for _ in range(800):
            logits = model(x)
            loss = F.cross_entropy(logits, controller.augment(logits))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ends[smoothing] = F.cross_entropy(model(x), y).item()
        assert controller.report["smoothing"] == (smoothing or 0.1)
    for smoothing, end in ends.items():
        assert end == pytest.approx(-np.log(1 - (smoothing or 0.1) * 2 / 3), rel=0.02), smoothing
    with pytest.raises(ValueError, match="smoothing belongs to cross-entropy, not to mse"):
        cdt.Controller(model, x, F.one_hot(y, 3).float(), lr=0.1, smoothing=0.1)
    with pytest.raises(ValueError, match="smoothing must be above 0"):
        cdt.Controller(model, x, y, lr=0.1, loss="cross-entropy", smoothing=0.0)


def test_report_of_a_trained_model_does_not_promise():
    torch.manual_seed(0)
    x, y = torch.randn(40, 3), torch.randn(40)  # noise: nothing can be said of new rows
    model = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
    controller = cdt.Controller(model, x, y, lr=0.1)
    assert "UNKNOWN" not in str(controller.report)
    cdt.fit(model, x, y, stop_loss=1e-3, progress=False)
    after = controller.report
    assert after["left_out"]["r2"] > 0.5, "too good: this is why it has to be said"
    assert re.search(r"new rows +UNKNOWN", str(after)) and "If it was trained on these rows" in " ".join(str(after).split())


def test_wrong_settings_are_named():
    model, x, y = problem()
    with pytest.raises(ValueError, match="refresh_above must be 0 or more, or None, got -1"):
        cdt.Controller(model, x, y, lr=0.1, refresh_above=-1)
    with pytest.raises(ValueError, match='such as "mse".*got a MSELoss'):
        cdt.Controller(model, x, y, lr=0.1, loss=nn.MSELoss())
    for lr in (0, -0.1, "0.1", None, [0.1], float("nan")):
        with pytest.raises(ValueError, match="lr must be a number above 0, got " + re.escape(repr(lr))):
            cdt.Controller(model, x, y, lr=lr)
    with pytest.raises(ValueError, match="p must be a number above 0, got -1"):
        cdt.analyze(model, x, y, p=-1)
    with pytest.raises(ValueError, match="loss must be one of mse, .*got 'mae'"):
        cdt.Controller(model, x, y, lr=0.1, loss="mae")
    with pytest.raises(ValueError, match="array of all samples, got a DataLoader; batch_size="):
        cdt.fit(model, torch.utils.data.DataLoader(x), y)
    with pytest.raises(ValueError, match=r"class numbers must have shape \[.*\], got \[.*, 1\]"):
        cdt.Controller(model, x, torch.zeros(len(x), 1, dtype=torch.int64), lr=0.1, loss="cross-entropy")
    with pytest.raises(KeyError, match="lrmax.*lr_max"):
        cdt.analyze(model, x, y)["lrmax"]


def test_parameters_frozen_afterwards_are_named():
    model, x, y = problem()
    controller, opt, local = cdt.Controller(model, x, y, lr=0.1), cdt.optim.Guarded(model), cdt.linearize(model, x)
    opt.step(x, y)
    model[0].bias.requires_grad_(False)
    for ask in (controller.refresh, lambda: opt.step(x, y), local):
        with pytest.raises(ValueError, match=r"a parameter of shape \[24\] was frozen"):
            ask()


def test_a_kernel_beyond_memory_is_refused_before_it_is_begun():
    model = nn.Linear(1, 3)
    with pytest.raises(ValueError, match=r"the kernel \[9000000, 9000000\] .*cdt.NTK.* needs .* GB of memory"):
        cdt.ntk(model, torch.zeros(3_000_000, 1))


def test_general_weights():
    linalg = pytest.importorskip("scipy.linalg")
    model, x, y = problem()
    n = y.numel()
    torch.manual_seed(8)
    M = torch.randn(n, n, dtype=torch.float64)
    Q, R = torch.linspace(0.5, 3, n, dtype=torch.float64), M @ M.t() / n + torch.eye(n, dtype=torch.float64)
    controller = cdt.Controller(model, x, y, lr=0.3, Q=Q, R=R.numpy())
    S = (0.3 * 2 / n * jacobian_kernel(model, x)).numpy()
    A, Q, R = np.eye(n) - S, np.diag(Q.numpy()), R.numpy()
    def gain(P):
        return np.linalg.solve(R + S @ P @ S, S @ P @ A)

    # SciPy's solution has the gain to 1e-7; a step of Newton's method brings it to eps/s, s the smallest step, as ours has it.
    K = gain(linalg.solve_discrete_are(A, S, Q, R))
    F = A - S @ K
    P = linalg.solve_discrete_lyapunov(F.T, Q + K.T @ R @ K)
    K = gain((P + P.T) / 2)
    tolerance = 20 * np.finfo(float).eps / np.linalg.eigvalsh(S)[0]
    assert tolerance < 2e-9
    assert np.linalg.norm(controller.gain.numpy() - K) < tolerance * np.linalg.norm(K)
    with pytest.raises(ValueError, match="R must be .*positive definite"):
        cdt.Controller(model, x, y, lr=0.3, R=-np.eye(n))


def test_designs_by_name():
    """K of each mode by its formula, in the loop, in training and in the report."""
    model, x, y = problem()
    s, V = torch.linalg.eigh(0.3 * 2 / y.numel() * jacobian_kernel(model, x))
    descent = cdt.Controller(model, x, y, lr=0.3, design="descent")
    assert descent.gain.abs().max() < 1e-12 and descent.closed_loop_radius == pytest.approx((1 - s).abs().max().item())
    damped = cdt.Controller(model, x, y, lr=0.3, p=0.2, design="damped")
    assert relative_error(damped.gain, V @ torch.diag(1 / (s + 1 / math.sqrt(1 + 1 / 0.2)) - 1) @ V.t()) < 1e-9
    name = damped.certificate["controller"]
    assert name.startswith("damped") and damped.report["controller"]["name"] == name
    assert cdt.analyze(damped.kernel, lr=0.3, p=0.2, controller="damped")["controller"]["digest"] == damped.certificate["digest"]
    losses = {}
    for controller in (None, "lqr", "damped", "descent"):
        model, x, y = problem()
        losses[controller] = cdt.fit(model, x, y, method="cdt", lr=0.3, p=0.2, steps=5, controller=controller).train_loss
    assert losses[None] == losses["lqr"] and len(set(losses.values())) == 3
    with pytest.raises(ValueError, match="controller must be one of lqr, damped, descent"):
        cdt.Controller(model, x, y, lr=0.3, design="lqg")
    with pytest.raises(ValueError, match="without a design"):
        cdt.Controller(model, x, y, lr=0.3, gain=torch.eye(len(y)), design="damped")
    with pytest.raises(ValueError, match='does not read controller.*"cdt"'):
        cdt.fit(model, x, y, controller="damped", steps=1)


def test_gain_is_the_program_s(tmp_path):
    """The same kernel, the same gain as `cdt design`."""
    program = os.environ.get("CDT_PROGRAM", "")
    if not pathlib.Path(program).is_file():
        pytest.skip("the program is not built")
    model, x, y = problem()
    controller = cdt.Controller(model, x, y, lr=0.3, p=0.2)
    np.save(tmp_path / "theta.npy", controller.kernel.numpy())
    subprocess.run(
        [program, "design", "--kernel", "theta.npy", "--lr", "0.3", "--p", "0.2", "--out", "gain.npy", "--quiet"], cwd=tmp_path, check=True, timeout=120
    )
    gain = np.load(tmp_path / "gain.npy")
    assert np.abs(gain - controller.gain.numpy()).max() <= 1e-12 * np.abs(gain).max()


@pytest.mark.parametrize("refresh", [False, True])
def test_one_line_makes_a_loop_stable(refresh):
    torch.manual_seed(1)
    x = torch.rand(64, 4) - 0.5
    y = (torch.sin(3 * x[:, 0]) * x[:, 1]).unsqueeze(1)
    losses = {}
    for controlled in (False, True):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
        controller = cdt.Controller(model, x, y, lr=3.0)
        for step in range(100):
            if refresh and step == 50:
                controller.refresh()
            y_hat = model(x)
            loss = F.mse_loss(y_hat, controller.augment(y_hat) if controlled else y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not torch.isfinite(y_hat).all():
                break
        losses[controlled] = F.mse_loss(model(x), y).item()
    assert losses[True] < 1e-2
    assert not losses[False] < 1


def test_cross_entropy():
    """At eight times the rate at which plain descent begins to oscillate for ever."""
    losses = {}
    for controlled in (False, True):
        torch.manual_seed(3)
        x = torch.rand(40, 4) - 0.5
        y = x[:, :3].argmax(1)
        model = nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 3))
        rate = 8 * cdt.analyze(model, x, y, loss="cross-entropy")["lr_max"]
        controller = cdt.Controller(model, x, y, lr=rate, loss="cross-entropy")
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for _ in range(30):
            logits = model(x)
            labels = F.one_hot(y, 3).float()
            if controlled:
                controller.refresh()
                labels = controller.augment(logits)
                assert torch.allclose(labels.sum(1), torch.ones(40), atol=1e-4)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses[controlled] = F.cross_entropy(model(x), y).item()
    assert losses[True] < 0.3 < 1 < losses[False]
    assert (model(x).argmax(1) == y).float().mean() > 0.9


def test_wrong_shapes_are_named():
    model, x, y = problem()
    controller = cdt.Controller(model, x, y, lr=0.1)
    with pytest.raises(ValueError, match="outputs on all of x, 24 numbers, got 22.*mini-batches"):
        controller.augment(model(x[:11]))
    with pytest.raises(ValueError, match="got a ndarray"):
        controller.augment(model(x).detach().numpy())
    with pytest.raises(ValueError, match="labels must have shape"):
        cdt.Controller(model, x, y[:5], lr=0.1)
    with pytest.raises(ValueError, match=re.escape("the model's outputs have shape [12, 2], the labels [12, 4]")):
        cdt.Controller(model, x, y.repeat(1, 2), lr=0.1)
    with pytest.raises(ValueError, match="loss"):
        cdt.Controller(model, x, y, lr=0.1, loss="huber")


def test_report():
    model, x, y = problem()
    report = cdt.analyze(model, x, y, lr=0.2, trial_steps=5)
    eigenvalues = torch.linalg.eigvalsh(jacobian_kernel(model, x))
    assert report["lambda_max"] == pytest.approx(eigenvalues[-1].item(), rel=1e-9)
    assert report["lr_max"] == pytest.approx(y.numel() / eigenvalues[-1].item(), rel=1e-9)
    assert "gradient descent" in str(report) and "<pre>" in report._repr_html_()
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    assert torch.allclose(report.eigenvalues, eigenvalues, rtol=1e-6, atol=1e-9 * eigenvalues[-1].item())
    conflicting = cdt.analyze(model, torch.cat([x, x[:1]]), torch.cat([y, y[:1] + 1]), lr=0.2)
    assert not conflicting["reachable"] and conflicting["conflicts"]
    pytest.importorskip("matplotlib").use("Agg")
    assert len(report.plot().lines) == 3


def test_report_of_a_kernel():
    model, x, y = problem()
    theta = cdt.ntk(model, x)
    of_model, of_kernel = cdt.analyze(model, x, y, lr=0.2), cdt.analyze(theta.numpy(), y=y, outputs=model(x).detach(), lr=0.2)
    for name in ("n", "lambda_max", "lr_max", "radius_gd", "radius_cdt", "stable", "reachable"):
        assert of_kernel[name] == pytest.approx(of_model[name], rel=1e-9), name
    with pytest.raises(ValueError, match="symmetric"):
        cdt.analyze(torch.randn(4, 4, dtype=torch.float64))


def test_forecast_is_what_happens():
    """The curve of gradient descent at a small rate, beside the training that it forecasts, on a model that is linear in its parameters."""
    torch.manual_seed(4)
    model = nn.Linear(3, 1).double()
    x, x_val = torch.randn(20, 3).double(), torch.randn(10, 3).double()
    y, y_val = x.sum(1, keepdim=True) + 0.1, x_val.sum(1, keepdim=True) + 0.1
    found = cdt.forecast(model, x, y, x_val, y_val, lr=[0.05], p=[0.1], steps=[1, 10, 40])
    descent = [i for i, c in enumerate(found.candidates) if c["method"] == "gd"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(40):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        if step + 1 in found.steps:
            at = found.steps.index(step + 1)
            assert found.train_loss[descent[0], at].item() == pytest.approx(F.mse_loss(model(x), y).item(), rel=1e-8)
            assert found.val_loss[descent[0], at].item() == pytest.approx(F.mse_loss(model(x_val), y_val).item(), rel=1e-8)
    assert found.best["val_loss"] == found.val_loss.min().item()
    assert "2 candidates" in repr(found)


def test_dare():
    linalg = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(5)
    A, B, Q, R = rng.normal(size=(5, 5)), rng.normal(size=(5, 2)), np.eye(5), np.eye(2)
    solution = cdt.dare(A, B, Q, torch.from_numpy(R))
    P = linalg.solve_discrete_are(A, B, Q, R)
    assert np.linalg.norm(solution.P.numpy() - P) < 1e-9 * np.linalg.norm(P)
    assert solution.closed_loop_radius == pytest.approx(np.abs(np.linalg.eigvals(A - B @ solution.K.numpy())).max(), rel=1e-8)
    with pytest.raises(ValueError, match="must be stabilizable"):
        cdt.dare([[2.0]], [[0.0]], [[1.0]], [[1.0]])


@pytest.mark.parametrize("n", [1, 2, 4, 7, 12])
def test_dare_of_the_paper_s_state(n):
    """Eq. LQC in [y_hat; 1]: refused by name; augmented=True gives SciPy's solution of the error form, in the paper's coordinates."""
    linalg = pytest.importorskip("scipy.linalg")
    rng = np.random.default_rng(n)
    J = rng.normal(size=(n, 3 * n))
    S = J @ J.T * (1.5 / np.linalg.eigvalsh(J @ J.T)[-1])
    y, Q, R = 3 * rng.normal(size=(n, 1)), np.diag(rng.uniform(0.5, 2, n)), 0.1 * np.eye(n)
    A = np.block([[np.eye(n) - S, S @ y], [np.zeros((1, n)), np.ones((1, 1))]])
    B = np.vstack([S, np.zeros((1, n))])
    weight = np.block([[Q, -Q @ y], [-y.T @ Q, y.T @ Q @ y]])
    with pytest.raises(ValueError, match="eigenvalue 1;.*augmented=True"):
        cdt.dare(A, B, weight, R)
    found = cdt.dare(A, B, weight, R, augmented=True)
    P = linalg.solve_discrete_are(np.eye(n) - S, S, Q, R)
    K = np.linalg.solve(R + S @ P @ S, S @ P @ (np.eye(n) - S))
    assert np.allclose(found.K.numpy(), np.hstack([K, -K @ y]), rtol=1e-7, atol=1e-8)
    assert np.allclose(found.P.numpy(), np.block([[P, -P @ y], [-y.T @ P, y.T @ P @ y]]), rtol=1e-7, atol=1e-8)
    assert np.allclose(found.equilibrium.numpy(), y[:, 0])
    assert found.closed_loop_radius < 1
    e = rng.normal(size=n)
    assert found.optimal_cost(np.append(y[:, 0] + e, 1.0)) == pytest.approx(0.5 * e @ P @ e, rel=1e-7)
    with pytest.raises(ValueError, match="must be .*A₁, a; 0, 1"):
        cdt.dare(np.eye(n + 1) * 0.5, B, weight, R, augmented=True)


def test_classes_are_steered_soundly_by_default():
    """One design of the cross entropy ends worse than it began within some steps: augment designs anew unless told not to."""
    for seed in (1, 3):
        torch.manual_seed(seed)
        x = torch.rand(40, 4) - 0.5
        y = x[:, :3].argmax(1)
        model = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
        lr = cdt.analyze(model, x, y, loss="cross-entropy")["lr_max"]
        controller = cdt.Controller(model, x, y, lr=lr, loss="cross-entropy")
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for _ in range(150):
            logits = model(x)
            loss = F.cross_entropy(logits, controller.augment(logits))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert F.cross_entropy(model(x), y) < 0.3 and controller.refreshes > 0
    assert controller.certificate["controller"].startswith("lqr") and controller.certificate["kernel_margin"] > 1
    assert controller.certificate["closed_loop_radius"] < 1 and controller.certificate["riccati_residual"] < 1e-9


def test_a_kernel_s_rows_belong_to_the_samples_that_the_labels_say():
    torch.manual_seed(3)
    x = torch.randn(9, 3)
    x[7] = x[3]
    model = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 2))
    y = torch.randn(9, 2)
    found = cdt.analyze(cdt.ntk(model, x), y=y, outputs=model(x).detach(), lr=0.1)
    assert [conflict["rows"] for conflict in found["conflicts"]] == [[3, 7]]


def errors_after(controller_of, steps=20, lr=0.2):
    """Errors before and after steps of a loop that is linear in its parameters."""
    torch.manual_seed(2)
    x = torch.randn(6, 6, dtype=torch.float64)
    model = torch.nn.Linear(6, 1, bias=False, dtype=torch.float64)
    y = torch.randn(6, 1, dtype=torch.float64)
    controller = controller_of(model, x, y, lr)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    before = (model(x) - y).detach().flatten()
    for _ in range(steps):
        y_hat = model(x)
        loss = torch.nn.functional.mse_loss(y_hat, controller.augment(y_hat))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return x, before, (model(x) - y).detach().flatten(), controller


def test_a_gain_of_ones_own_is_the_loop_that_it_says():
    torch.manual_seed(4)
    K = 0.2 * torch.randn(6, 6, dtype=torch.float64) + torch.eye(6, dtype=torch.float64)
    x, before, after, controller = errors_after(lambda *given: cdt.Controller(*given[:3], lr=given[3], gain=K), steps=3)
    loop = torch.eye(6, dtype=torch.float64) - 0.2 * 2 / 6 * (x @ x.T) @ (torch.eye(6, dtype=torch.float64) + K)
    assert torch.allclose(after, torch.linalg.matrix_power(loop, 3) @ before, rtol=1e-10, atol=1e-12)
    certificate = controller.certificate
    assert certificate["closed_loop_radius"] == pytest.approx(torch.linalg.eigvals(loop).abs().max().item(), rel=1e-9)
    assert certificate["riccati_residual"] is None and certificate["makes_least"] is None
    assert torch.allclose(controller.gain, K)


def test_a_law_of_ones_own_steers():
    _, before, after, controller = errors_after(lambda *given: cdt.Controller(*given[:3], lr=given[3], law=lambda e: -0.5 * e), steps=4)
    _, _, by_gain, _ = errors_after(lambda *given: cdt.Controller(*given[:3], lr=given[3], gain=0.5 * torch.eye(6)), steps=4)
    assert torch.allclose(after, by_gain, rtol=1e-12, atol=1e-14)
    assert "probing" in controller.certificate["controller"]
    # One that is not linear has no eigenvalues to promise.
    _, before, after, controller = errors_after(lambda *given: cdt.Controller(*given[:3], lr=given[3], law=lambda e: -0.1 * e.tanh()), steps=20, lr=0.05)
    assert after.norm() < before.norm() and controller.certificate["closed_loop_radius"] is None


def test_a_controller_of_ones_own_is_refused_by_name():
    torch.manual_seed(2)
    model, x, y = torch.nn.Linear(3, 1), torch.randn(5, 3), torch.randn(5, 1)
    with pytest.raises(ValueError, match="gain or a law"):
        cdt.Controller(model, x, y, lr=0.1, gain=torch.eye(5), law=lambda e: e)
    with pytest.raises(ValueError, match="function"):
        cdt.Controller(model, x, y, lr=0.1, law=3)
    with pytest.raises(ValueError, match="gain"):
        cdt.Controller(model, x, y, lr=0.1, gain=torch.eye(4))
    with pytest.raises(ValueError, match="without Q and R"):
        cdt.Controller(model, x, y, lr=0.1, law=lambda e: e, Q=torch.eye(5))
    with pytest.raises(ValueError, match="shape"):
        cdt.Controller(model, x, y, lr=0.1, law=lambda e: e.sum()).augment(model(x))

    def broken(e):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        cdt.Controller(model, x, y, lr=0.1, law=broken).augment(model(x))
