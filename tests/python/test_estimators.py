"""Estimators beyond scikit-learn's own checks: frames, intervals, weights, saved forms, interruption."""

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.datasets import load_diabetes, load_iris  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

import cdt  # noqa: E402

SMALL = dict(hidden=(16,), ensemble=2, random_state=1)


def waves(rows, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (rows, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + noise * rng.normal(size=rows)


def mixed(rows=160, seed=0):
    """A frame with numbers, text, dates and truth values, some of them missing; what is to be learned needs all but one column."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(["flat", "house", "hut"], rows)
    area = rng.uniform(30, 200, rows)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1400, rows), unit="D")
    garden = rng.random(rows) < 0.5
    price = area * np.select([kind == "flat", kind == "house"], [3.0, 2.0], 1.0) + 40 * garden + 0.05 * (day - day.min()).days
    frame = pd.DataFrame({"id": [f"row {i}" for i in range(rows)], "kind": kind, "area": area, "day": day, "garden": garden})
    frame.loc[rng.choice(rows, 8, replace=False), "area"] = np.nan
    frame.loc[rng.choice(rows, 8, replace=False), "kind"] = None
    return frame, pd.Series(np.asarray(price), name="price")


def test_predicts_new_rows():
    X, _ = waves(200)
    model = cdt.CDTRegressor(hidden=(64,), random_state=1).fit(X, X[:, 0] * X[:, 1])
    X, _ = waves(2000, seed=8)
    y = X[:, 0] * X[:, 1]
    assert model.score(X, y) > 0.98
    (expected,) = model.expected_
    # What it expects is what comes: held-out rows are new rows. A linear model does not see that columns act together.
    rmse = np.sqrt(np.mean((model.predict(X) - y) ** 2))
    assert abs(expected["rmse"] - rmse) < 4 * expected["rmse_error"] + 0.3 * rmse
    assert expected["linear_rmse"] > 3 * expected["rmse"]


def test_rows_that_repeat_are_no_new_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    fresh, truth = rng.normal(size=(400, 4)), rng.normal(size=400)
    for times in (1, 3):  # targets of copies may differ a little: the features decide
        shaken = np.tile(y, times) + 0.01 * (times > 1) * rng.normal(size=60 * times)
        model = cdt.CDTRegressor(hidden=(32,), ensemble=4, random_state=1).fit(np.tile(X, (times, 1)), shaken)
        (expected,) = model.expected_
        assert expected["r2"] < 0.3 and expected["different_rows"] == 60
        assert any("repeat another" in note for note in model.notes_) == (times > 1)
        low, high = model.predict_interval(fresh, 0.9).T
        assert np.mean((low <= truth) & (truth <= high)) > 0.8


def test_intervals_and_deviations():
    noise = 0.3
    model = cdt.CDTRegressor(**SMALL).fit(*waves(400, noise))
    X, y = waves(4000, noise, seed=7)
    mean, std = model.predict(X, return_std=True)
    assert np.array_equal(mean, model.predict(X))
    # Standardised errors of new rows have variance one, and most of the deviation is the noise.
    assert abs(np.sqrt(np.mean(((mean - y) / std) ** 2)) - 1) < 0.15
    assert 0.9 * noise < np.median(std) < 1.3 * noise
    for coverage in (0.5, 0.9):
        bounds = model.predict_interval(X, coverage)
        assert bounds.shape == (4000, 2)
        held = np.mean((bounds[:, 0] <= y) & (y <= bounds[:, 1]))
        assert abs(held - coverage) < 0.07, held
    with pytest.raises(ValueError, match="between 0 and 1, got 1.5"):
        model.predict_interval(X, 1.5)


def test_deviations_of_logarithms():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (400, 1))
    y = np.exp(3 * X[:, 0] + 0.2 * rng.normal(size=400))
    model = cdt.CDTRegressor(**SMALL).fit(X, y)
    assert any("logarithm" in note for note in model.notes_)
    chosen = {choice["setting"]: (choice["value"], choice["by"]) for choice in model.choices_}
    assert chosen["goal"] == ("predict", "data") and chosen["scale"] == ("standard", "goal") and chosen["hidden"][1] == "user"
    mean, std = model.predict(X, return_std=True)
    assert (mean > 0).all()
    # A log-normal's deviation is its mean times √(e^σ² − 1), wherever it is.
    ratio = std / mean
    assert np.all(np.abs(ratio / np.sqrt(np.expm1(0.2**2)) - 1) < 0.35)
    plain = cdt.CDTRegressor(**SMALL, target_transform="none").fit(X, y)
    assert not any("logarithm" in note for note in plain.notes_)


def test_frames_of_all_kinds():
    frame, price = mixed()
    model = cdt.CDTRegressor(hidden=(32,), ensemble=2, random_state=1).fit(frame, price)
    assert model.score(frame, price) > 0.95
    assert model.n_features_in_ == 5 and list(model.feature_names_in_) == list(frame.columns)
    notes = "\n".join(model.notes_)
    assert "id: left out, an identifier" in notes and "day: dates" in notes
    # The same values in other clothes: a category, dates as text, pandas' own missing values.
    other = frame.assign(kind=frame.kind.astype("category"), day=frame.day.dt.strftime("%Y-%m-%d"), area=frame.area.astype("Float64"))
    assert np.array_equal(model.predict(other), model.predict(frame))
    dressed = cdt.CDTRegressor(hidden=(32,), ensemble=2, random_state=1).fit(other, price)
    assert np.array_equal(dressed.predict(frame), model.predict(frame))
    # A text that training has not seen is taken for missing.
    unknown, missing = frame.head(5).assign(kind="castle"), frame.head(5).assign(kind=None)
    assert np.array_equal(model.predict(unknown), model.predict(missing))
    with pytest.raises(ValueError, match="column 'area', row 0: expected a number, as when the model was trained, got 'wide'"):
        model.predict(frame.assign(area="wide"))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"area": "surface"}))


def test_arrays_of_objects():
    frame, price = mixed()
    columns = ["kind", "area", "garden"]
    by_frame = cdt.CDTRegressor(**SMALL).fit(frame[columns], price)
    by_array = cdt.CDTRegressor(**SMALL).fit(frame[columns].to_numpy(dtype=object), price.to_numpy())
    assert np.array_equal(by_frame.predict(frame[columns]), by_array.predict(frame[columns].to_numpy(dtype=object)))


def test_the_order_of_rows_does_not_matter():
    frame, price = mixed()
    shuffled = np.random.default_rng(1).permutation(len(frame))
    one = cdt.CDTRegressor(**SMALL).fit(frame, price)
    other = cdt.CDTRegressor(**SMALL).fit(frame.iloc[shuffled], price.iloc[shuffled])
    assert np.array_equal(one.predict(frame), other.predict(frame))


def test_counting_columns():
    y = np.arange(60.0) ** 2
    X = pd.DataFrame({"n": np.arange(60), "m": np.arange(60) % 2})
    assert any("n: left out, an identifier" in note for note in cdt.CDTRegressor(**SMALL).fit(X, y).notes_)
    assert cdt.CDTRegressor(**SMALL).fit(X.to_numpy(), y).score(X.to_numpy(), y) > 0.95  # who passes an array has chosen
    kept = cdt.CDTRegressor(**SMALL, options={"keep": ["n"]}).fit(X, y)
    assert kept.score(X, y) > 0.95


def test_weights():
    X, y = waves(150)
    odd = np.arange(150) % 3 == 0
    model = cdt.CDTRegressor(**SMALL).fit(X, np.where(odd, 50.0, y), sample_weight=np.where(odd, 0.0, 1.0))
    assert np.array_equal(model.predict(X), cdt.CDTRegressor(**SMALL).fit(X[~odd], y[~odd]).predict(X))
    # Two answers for each input, one with three times the weight: their weighted mean is learned.
    rng = np.random.default_rng(2)
    Z = rng.choice([-1.0, 1.0], (200, 1))
    label = np.tile([0.0, 1.0], 100)
    for times in (1, 10):  # only ratios matter
        weighted = cdt.CDTRegressor(**SMALL).fit(Z, label, sample_weight=times * np.where(label == 1, 3.0, 1.0))
        assert np.all(np.abs(weighted.predict([[-1.0], [1.0]]) - 0.75) < 0.05)
    with pytest.raises(ValueError, match="Negative values"):
        cdt.CDTRegressor(**SMALL).fit(X, y, sample_weight=-np.ones(150))


def test_batches_do_not_matter():
    model = cdt.CDTRegressor(**SMALL).fit(*waves(120))
    X, _ = waves(10_000, seed=5)  # more than the library takes at once
    whole = model.predict(X)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(0, 10_000, 500)])
    assert np.all(np.abs(alone - whole[::500]) <= 1e-13 * np.abs(whole).max())
    bounds = model.predict_interval(X[:50])
    assert np.all(np.abs(model.predict_interval(X[7:9]) - bounds[7:9]) <= 1e-9)


def test_same_seed_same_bits():
    X, y = waves(100)
    one, two, three = (cdt.CDTRegressor(hidden=(16,), ensemble=2, random_state=seed).fit(X, y).predict(X) for seed in (1, 1, 2))
    assert np.array_equal(one, two) and not np.array_equal(one, three)
    np.random.seed(4)
    drawn = cdt.CDTRegressor(hidden=(16,), ensemble=2).fit(X, y).predict(X)
    np.random.seed(4)
    assert np.array_equal(drawn, cdt.CDTRegressor(hidden=(16,), ensemble=2).fit(X, y).predict(X))


@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_pickles_are_data(kind):
    X, y = waves(80)
    model = cdt.CDTRegressor(**SMALL).fit(X, y) if kind == "regressor" else cdt.CDTClassifier(**SMALL).fit(X, y > 0)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(model.predict(X), again.predict(X))
    if kind == "regressor":
        assert np.array_equal(model.predict_interval(X), again.predict_interval(X))
    assert pickle.dumps(again) == pickle.dumps(model)
    # The fitted part is bytes of the library's own format, which holds no code.
    saved = model._trained.__getstate__()
    assert isinstance(saved, bytes) and b"cdt-trained-model-1" in saved
    for damaged in (saved[:-5], saved[:200], saved.replace(b'"temperature', b'"temperatura'), b""):
        broken = type(model._trained).__new__(type(model._trained))
        with pytest.raises(ValueError, match="the saved model"):
            broken.__setstate__(damaged)


def test_several_targets():
    X, y = waves(150)
    Y = np.stack([y, 100 * X[:, 0], X[:, 1]], 1)
    model = cdt.CDTRegressor(hidden=(32,), ensemble=2, random_state=1).fit(X, Y)
    assert model.predict(X).shape == (150, 3) and model.predict_interval(X).shape == (150, 3, 2)
    assert [each.shape for each in model.predict(X, return_std=True)] == [(150, 3)] * 2
    assert np.all(1 - np.mean((model.predict(X) - Y) ** 2, 0) / Y.var(0) > 0.95)
    named = cdt.CDTRegressor(**SMALL).fit(X, pd.DataFrame(Y, columns=["a", "b", "c"]))
    assert [each["target"] for each in named.expected_] == ["a", "b", "c"]


def test_pipelines_and_searches():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X, y = X[:150], y[:150]
    pipeline = make_pipeline(StandardScaler(), cdt.CDTRegressor(ensemble=1, random_state=1))
    search = GridSearchCV(pipeline, {"cdtregressor__hidden": [(8,), (16, 16)]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.2
    assert len(cross_val_score(clone(search.best_estimator_), X, y, cv=2)) == 2


def test_other_ways_to_learn():
    X, y = waves(120)
    by_adam = cdt.CDTRegressor(hidden=16, ensemble=1, method="adam", random_state=1, options={"steps": 60, "lr": 0.01}).fit(X, y)
    assert by_adam.score(X, y) > 0.9 and by_adam.predict_interval(X).shape == (120, 2)
    walks_alone = cdt.CDTRegressor(**SMALL, refit=False).fit(X, y)
    assert walks_alone.n_members_ == 0 and walks_alone.score(X, y) > 0.9
    without = cdt.CDTRegressor(**SMALL, intervals=False).fit(X, y)
    with pytest.raises(ValueError, match="there are no intervals"):
        without.predict(X, return_std=True)
    linear = cdt.CDTRegressor(hidden=(), ensemble=2, random_state=1, options={"quantiles": 0}).fit(X, X[:, 0] - X[:, 1])
    assert linear.score(X, X[:, 0] - X[:, 1]) > 0.999


def test_module_is_the_model():
    X, y = waves(100)
    model = cdt.CDTRegressor(**SMALL).fit(X, y)
    by_torch = model.module_(model.encode(X)).detach().numpy()[:, 0]
    assert np.all(np.abs(by_torch - model.predict(X)) < 1e-5 * np.abs(y).max())
    classifier = cdt.CDTClassifier(**SMALL).fit(X, y > 0)
    assert np.all(np.abs(classifier.module_(classifier.encode(X)).detach().numpy() - classifier.predict_proba(X)) < 1e-5)


def test_classes():
    X, y = load_iris(return_X_y=True)
    names = np.asarray(["virginica", "setosa", "versicolor"])[y]
    model = cdt.CDTClassifier(**SMALL).fit(X, names)
    assert list(model.classes_) == ["setosa", "versicolor", "virginica"]
    proba = model.predict_proba(X)
    assert np.allclose(proba.sum(1), 1) and np.array_equal(model.classes_[proba.argmax(1)], model.predict(X))
    assert model.score(X, names) > 0.95
    assert model.expected_[0]["wrong"] < 0.1
    # A class of weight 0 is known, but not learned.
    without = cdt.CDTClassifier(**SMALL).fit(X, names, sample_weight=np.where(names == "setosa", 0.0, 1.0))
    assert list(without.classes_) == list(model.classes_) and not without.predict_proba(X)[:, 0].any()


def test_class_weights():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 1)), (rng.random(200) < 0.2).astype(int)  # nothing to learn but how frequent
    plain = cdt.CDTClassifier(**SMALL).fit(X, y).predict_proba(X)[:, 1].mean()
    balanced = cdt.CDTClassifier(**SMALL, class_weight="balanced").fit(X, y).predict_proba(X)[:, 1].mean()
    weighted = cdt.CDTClassifier(**SMALL, class_weight={1: 4.0}).fit(X, y).predict_proba(X)[:, 1].mean()
    assert abs(plain - 0.2) < 0.05 and abs(balanced - 0.5) < 0.1 and abs(weighted - 0.5) < 0.1
    with pytest.raises(ValueError, match="'no' is no class of y"):
        cdt.CDTClassifier(**SMALL, class_weight={"no": 1}).fit(X, y)


@pytest.mark.parametrize(
    "parameters, words",
    [
        (dict(activation="sine"), "activation"),
        (dict(hidden=(0,)), "hidden: expected a number above 0"),
        (dict(ensemble=99), "ensemble: expected a number from 1 to 32"),
        (dict(options={"quantile": 5}), "there is no setting 'quantile'"),
        (dict(options={"seed": 5}), "parameter of its own"),
        (dict(n_jobs=0), "n_jobs must be"),
        (dict(device="tpu"), "device: expected cpu, cuda or cuda:N"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(ValueError, match=words):
        cdt.CDTRegressor(**{**SMALL, **parameters}).fit(*waves(40))


def test_bad_tables():
    X, y = waves(30)
    with pytest.raises(ValueError, match="infinity"):
        cdt.CDTRegressor(**SMALL).fit(pd.DataFrame({"a": np.where(X[:, 0] > 1, np.inf, 1.0)}), y)
    with pytest.raises(ValueError, match="twice|unique column names"):
        cdt.CDTRegressor(**SMALL).fit(pd.DataFrame(X, columns=["a", "a"]), y)
    with pytest.raises(ValueError, match="that say something"):
        cdt.CDTRegressor(**SMALL).fit(pd.DataFrame({"a": np.ones(30)}), y)
    assert np.allclose(cdt.CDTRegressor(**SMALL).fit(np.ones((30, 1)), y).predict(np.ones((1, 1))), y.mean(), atol=0.1)


def test_it_tells_how_far_it_is(capsys):
    cdt.CDTRegressor(**SMALL, verbose=True).fit(*waves(60))
    said = capsys.readouterr().out
    assert "point 0 of at most 20, held-out loss" in said and "all rows, point 1 of" in said and "expected RMS error on new rows" in said


def test_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cdt.CDTRegressor(**SMALL).fit(*waves(60)).predict(waves(5)[0])
    assert os.listdir(tmp_path) == []


def test_other_threads_go_on():
    counted, over = [0], threading.Event()

    def count():
        while not over.wait(0.01):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    started = time.perf_counter()
    cdt.CDTRegressor(hidden=(64, 64), random_state=1).fit(*waves(150))
    seconds = time.perf_counter() - started
    over.set()
    thread.join()
    assert counted[0] > 5 * seconds  # of a hundred a second; of a lock that is kept there would be none


@pytest.fixture
def interruptible():
    """As in a terminal: whoever is started in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_seen_at_once(interruptible):
    X, y = waves(4000)
    sent = []

    def interrupt():
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(1.0, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cdt.CDTRegressor(ensemble=4, random_state=1).fit(X, y)
    # Within a second, though a step here takes longer; twice that on a machine that is busy with other things.
    assert time.perf_counter() - sent[0] < 2
    # The work has ended as well, on all its threads.
    time.sleep(1)
    used = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - used < 0.1
    assert cdt.CDTRegressor(**SMALL).fit(*waves(60)).score(*waves(60)) > 0.5  # and nothing is broken


def test_a_linear_function_is_learned_as_a_line_does():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 2))
    fresh = rng.normal(size=(300, 2))
    truth = lambda of: 2 * of[:, 0] - 3 * of[:, 1]  # noqa: E731
    model = cdt.CDTRegressor(hidden=(16,), random_state=1).fit(X, truth(X))
    assert any("line" in note for note in model.notes_), model.notes_
    X1 = np.column_stack([X, np.ones(len(X))])
    least_squares = np.linalg.lstsq(X1, truth(X), rcond=None)[0]
    assert np.allclose(np.column_stack([fresh, np.ones(300)]) @ least_squares, truth(fresh))
    inside = (np.abs(fresh) < 2).all(1)
    error = np.sqrt(np.mean((model.predict(fresh)[inside] - truth(fresh)[inside]) ** 2))
    assert error < 0.02 * truth(fresh).std(), error
    # The same everywhere: as a module, and kept.
    as_module = model.module_(model.encode(fresh)).detach().numpy()[:, 0]
    assert np.allclose(as_module, model.predict(fresh), atol=1e-4)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(fresh), model.predict(fresh))


def test_rows_in_an_order_have_both_errors():
    rng = np.random.default_rng(6)
    time = np.linspace(-2, 2, 160)
    y = rng.normal(size=160).cumsum() / 4
    model = cdt.CDTRegressor(hidden=(16,), random_state=1).fit(time[:, None], y)
    later = model.expected_[0]["later"]
    assert later["rows"] == 32 and later["r2"] < model.expected_[0]["r2"]
    assert "the last 32" in model.expected_[0]["text"]
    shuffled = rng.permutation(160)
    model = cdt.CDTRegressor(hidden=(16,), random_state=1).fit(time[shuffled][:, None], y[shuffled])
    assert "later" not in model.expected_[0]


def test_few_rows_are_said_to_be_few():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(20, 2))
    model = cdt.CDTRegressor(hidden=(8,), random_state=1).fit(X, X[:, 0] + rng.normal(size=20))
    assert any("20 rows are few" in note for note in model.notes_), model.notes_
    classes = cdt.CDTClassifier(hidden=(8,), random_state=1).fit(X, np.where(X[:, 0] > 0, "a", "b"))
    assert classes.expected_[0]["wrong_error"] > 0.02
