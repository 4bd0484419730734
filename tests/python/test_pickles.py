"""Pickles that were damaged on the way are refused, or are as good as whole ones."""

import contextlib
import copy
import io
import pickle
import random
import resource
import warnings

import numpy as np
import pytest
import torch

pd = pytest.importorskip("pandas")
cdt = pytest.importorskip("cdt")

SMALL = dict(hidden=(4,), ensemble=1, random_state=1, intervals=False)


def waves(n):
    X = np.random.default_rng(0).uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1]


@contextlib.contextmanager
def little_memory():
    """At most 2 GiB more than now: a flipped bit of an index makes Python's own reader of pickles ask for 20 GB."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as sizes:
        now = int(sizes.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (2 << 30), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def expect_refused_or_the_same(saved, outcome, flips=100):
    """`outcome` of what comes back is compared; whatever it raises is a refusal."""
    wanted = outcome(pickle.loads(saved))
    assert np.array_equal(wanted, outcome(pickle.loads(saved)))
    draw = random.Random(1)
    ends = [*range(0, 160, 3), *range(8 * len(saved) - 120, 8 * len(saved), 3)]
    refused = 0
    for bit in [*draw.sample(range(8 * len(saved)), flips), *ends]:
        damaged = bytearray(saved)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            with warnings.catch_warnings(), little_memory():
                warnings.simplefilter("ignore")
                came = outcome(pickle.loads(bytes(damaged)))
        except Exception:  # pickle itself raises anything
            refused += 1
            continue
        assert np.array_equal(wanted, came), f"bit {bit} of {8 * len(saved)}"
    assert refused > flips // 2


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_flipped_bits_of_estimators(kind):
    X, y = waves(60)
    frame = pd.DataFrame(X, columns=["left", "right"])
    if kind == "regressor":
        model = cdt.CDTRegressor(**SMALL).fit(frame, y)
        outcome = lambda found: found.predict(frame[:8])  # noqa: E731
    else:
        settings = {key: value for key, value in SMALL.items() if key != "intervals"}
        model = cdt.CDTClassifier(**settings).fit(frame, np.where(y > 0, "up", "down"))
        outcome = lambda found: np.append(found.predict(frame[:8]), found.predict_proba(frame[:8]).astype(str))  # noqa: E731
    expect_refused_or_the_same(pickle.dumps(model), outcome)
    # The fitted part alone.
    part = pickle.dumps(model._trained)
    table = model._table(frame[:8])
    expect_refused_or_the_same(part, lambda found: found.predict(table, 1).numpy(), 60)
    assert np.array_equal(outcome(copy.deepcopy(model)), outcome(model))
    # And the plain PyTorch of it.
    x = model.encode(frame[:8])
    expect_refused_or_the_same(pickle.dumps(model.module_), lambda found: found(x).detach().numpy(), 60)


def test_pickles_of_earlier_versions_are_read():
    X, y = waves(60)
    model = cdt.CDTRegressor(**SMALL).fit(X, y)
    before = cdt.CDTRegressor()
    before.__setstate__(dict(model.__dict__))
    assert np.array_equal(before.predict(X), model.predict(X))
    module = model.module_
    state = dict(module.__dict__)
    again = type(module).__new__(type(module))
    again.__setstate__(state)
    x = model.encode(X)
    assert torch.equal(again(x), module(x))


def test_modules_are_saved_by_torch():
    X, y = waves(60)
    model = cdt.CDTRegressor(**SMALL).fit(X, y)
    file = io.BytesIO()
    torch.save(model.module_, file)
    file.seek(0)
    kwargs = {"weights_only": False} if "weights_only" in torch.load.__code__.co_varnames else {}
    x = model.encode(X)
    assert torch.equal(torch.load(file, map_location="cpu", **kwargs)(x), model.module_(x))


def test_flipped_bits_of_results():
    _, y = waves(20)
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 1)
    x, y = torch.rand(20, 2), torch.tensor(y).float().reshape(-1, 1)
    result = cdt.fit(net, x, y, method="gd", lr=0.1, steps=3)
    expect_refused_or_the_same(
        pickle.dumps(result), lambda found: np.array([found.train_loss, *found.history["train_loss"], found.steps, hash(found.words)]), 60
    )
    report = cdt.analyze(net, x, y, lr=0.1)
    expect_refused_or_the_same(pickle.dumps(report), lambda found: np.array([hash(str(found)), hash(str(found.to_dict()))]), 60)
