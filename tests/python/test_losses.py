"""Losses by name, and functions of one's own."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cdt


def problem(outputs=1):
    torch.manual_seed(0)
    x = torch.rand(40, 3, dtype=torch.float64) - 0.5
    y = torch.sin(3 * x[:, :outputs]) * x[:, 1:2]
    model = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, outputs)).double()
    return model, x, y


def log_cosh(outputs, targets):
    return (outputs - targets).cosh().log().sum(1)


@pytest.mark.parametrize("method", ["guarded", "path", "adam", "gd"])
def test_a_function_is_a_loss(method):
    model, x, y = problem(2)
    before = log_cosh(model(x), y).mean().item()
    rate = {"adam": {"lr": 0.01}, "gd": {"lr": 0.1}}.get(method, {})
    result = cdt.fit(model, x, y, loss=log_cosh, method=method, steps=12, **rate)
    assert result.train_loss == pytest.approx(log_cosh(model(x), y).mean().item(), rel=1e-12)
    assert result.train_loss < before
    if method == "guarded":
        assert (np.diff(result.history["train_loss"]) <= 0).all() and result.train_loss < 1e-3 * before


def test_a_function_descends_as_its_named_twin():
    named, x, y = problem()
    own, _, _ = problem()
    cdt.fit(named, x, y, loss="huber:0.1", method="gd", lr=0.2, steps=5)
    cdt.fit(own, x, y, loss=lambda a, b: F.huber_loss(a, b, reduction="none", delta=0.1).sum(1), method="gd", lr=0.2, steps=5)
    for a, b in zip(named.parameters(), own.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_what_a_function_must_return():
    model, x, y = problem()
    with pytest.raises(ValueError, match="a value for each of the 40 samples"):
        cdt.fit(model, x, y, loss=lambda a, b: (a - b).square().mean(), steps=2)
    with pytest.raises(ValueError, match="must return a tensor"):
        cdt.fit(model, x, y, loss=lambda a, b: 1.0, steps=2)
    with pytest.raises(ZeroDivisionError):
        cdt.fit(model, x, y, loss=lambda a, b: 1 / 0, steps=2)
    with pytest.raises(ValueError, match="has no bound on its curvature"):
        cdt.fit(model, x, y, loss=log_cosh, method="gd", steps=2)
    with pytest.raises(ValueError, match="steers quadratic losses"):
        cdt.fit(model, x, y, loss=log_cosh, method="cdt", lr=0.1, steps=2)


def counts(rows=300):
    torch.manual_seed(2)
    x = torch.randn(rows, 4, dtype=torch.float64)
    return x, torch.poisson((x @ torch.tensor([0.5, -0.3, 0.2, 0.0], dtype=torch.float64) + 1.2).exp()).unsqueeze(1)


def test_a_linear_model_of_counts_is_that_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = counts()
    model = nn.Linear(4, 1).double()
    result = cdt.fit(model, x, y, loss="poisson", steps=100)
    known = linear_model.PoissonRegressor(alpha=0, tol=1e-10, max_iter=10000).fit(x.numpy(), y[:, 0].numpy())
    np.testing.assert_allclose(model.weight[0].detach().numpy(), known.coef_, rtol=1e-4, atol=1e-4 * abs(known.coef_).max())
    assert model.bias.item() == pytest.approx(known.intercept_, rel=1e-4)
    mean = known.predict(x.numpy())
    from sklearn.metrics import mean_poisson_deviance

    assert result.train_loss == pytest.approx(mean_poisson_deviance(y[:, 0].numpy(), mean) / 2, rel=1e-8)


@pytest.mark.parametrize("goal", ["fit", "predict"])
def test_counts_are_learned(goal):
    x, y = counts()
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    cdt.fit(model, x, y, loss="poisson", goal=goal, steps=20)
    mean = model(x).exp()
    assert mean.mean().item() == pytest.approx(y.mean().item(), rel=0.05)
    assert np.corrcoef(mean[:, 0].detach(), y[:, 0])[0, 1] > 0.6
    y[17] = -1
    with pytest.raises(ValueError, match=r"must be 0 or more for the loss poisson, not -1 in row 17"):
        cdt.fit(model, x, y, loss="poisson", goal=goal, steps=2)


def test_a_regressor_of_counts():
    pytest.importorskip("sklearn")
    x, y = counts()
    x, y = x.numpy(), y[:, 0].numpy()
    model = cdt.CDTRegressor(hidden=(8,), loss="poisson", ensemble=1, random_state=1).fit(x, y)
    mean = model.predict(x)
    assert (mean > 0).all() and np.corrcoef(mean, y)[0, 1] > 0.6
    low, high = model.predict_interval(x, coverage=0.8).T
    assert (low >= 0).all() and 0.7 < ((low <= y) & (y <= high)).mean() <= 1
    encoded = model.encode(x)
    np.testing.assert_allclose(model.module_(encoded).numpy(force=True)[:, 0], mean, rtol=1e-5)
    traced = torch.jit.trace(model.module_, encoded)
    np.testing.assert_allclose(traced(encoded).numpy(force=True)[:, 0], mean, rtol=1e-5)
    with pytest.raises(ValueError, match="it needs a loss that scales its targets"):
        cdt.CDTRegressor(loss="poisson", target_transform="log").fit(x, y)


def poisson(outputs, targets):
    return (outputs.exp() - targets * outputs).sum(1)


@pytest.mark.parametrize(
    "loss, values",
    [("huber:0.1", lambda a, b: F.huber_loss(a, b, reduction="none", delta=0.1).sum(1)), ("poisson", poisson), (log_cosh, log_cosh)],
    ids=["huber", "poisson", "own"],
)
def test_the_preflight_is_of_the_curvature_at_the_outputs(loss, values):
    model, x, y = problem()
    if loss == "poisson":
        y = torch.poisson((1 + 3 * y).exp())
    report = cdt.analyze(model, x, y, loss=loss, lr=0.1)
    outputs = model(x)
    rows = [torch.cat([g.flatten() for g in torch.autograd.grad(o, list(model.parameters()), retain_graph=True)]) for o in outputs[:, 0]]
    J = torch.stack(rows)
    curvature = torch.autograd.functional.hessian(lambda z: values(z, y).mean(), outputs.detach()).reshape(40, 40)
    largest = torch.linalg.eigvals(J @ J.T @ curvature).real.max().item()
    assert report["lr_max"] == pytest.approx(2 / largest, rel=1e-9)
    assert report["radius_gd"] == pytest.approx(max(abs(1 - 0.1 * largest), 1), abs=1e-6)
    assert report["lambda_max"] == pytest.approx(report.eigenvalues.max().item())
    assert "at the outputs before training" in " ".join(str(report).split())
    with pytest.raises(ValueError, match="has no closed form"):
        cdt.analyze(model, x, y, x_val=x, y_val=y, loss=loss)


def test_a_function_learns_to_predict_and_goes_on():
    model, x, y = problem()
    before = log_cosh(model(x), y).mean().item()
    result = cdt.fit(model, x, y, loss=log_cosh, goal="predict", steps=15)
    assert log_cosh(model(x), y).mean().item() < 0.7 * before and result.best_step >= 1
    # A second call goes on from where the first one ended: guarded steps never raise it.
    first = cdt.fit(model, x, y, loss=log_cosh, steps=3)
    second = cdt.fit(model, x, y, loss=log_cosh, steps=3)
    assert second.history["train_loss"][0] == pytest.approx(first.train_loss, rel=1e-12) and second.train_loss <= first.train_loss


@pytest.mark.parametrize("goal", ["fit", "predict"])
def test_quantiles_lie_above_their_share(goal):
    torch.manual_seed(1)
    x = torch.rand(400, 1, dtype=torch.float64)
    y = x + 0.5 * torch.randn(400, 1, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    cdt.fit(model, x, y, loss="quantile:0.9", goal=goal, steps=30)
    assert (y < model(x)).double().mean().item() == pytest.approx(0.9, abs=0.06)
