"""New data that are written otherwise than those of training, or say what it did not know."""

import warnings

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

import cdt  # noqa: E402

SMALL = dict(hidden=(16,), ensemble=2, random_state=1)


def codes(rows=160, seed=0):
    """A category that decides nearly all, written as whole numbers; a truth value; a day."""
    rng = np.random.default_rng(seed)
    code = rng.integers(1, 5, rows)
    flag = rng.random(rows) < 0.5
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    y = np.array([0.0, 5.0, -3.0, 9.0, 1.0])[code] + 2.0 * flag + 0.01 * (day - pd.Timestamp("2023-01-01")).days.to_numpy() + 0.05 * rng.normal(size=rows)
    return pd.DataFrame({"code": code, "flag": flag, "day": day}), y


def as_texts(frame):
    return frame.assign(code=frame.code.astype(str), flag=frame.flag.map({True: "true", False: "false"}), day=frame.day.dt.strftime("%Y-%m-%d"))


def test_values_are_matched_however_they_are_written():
    frame, y = codes()
    model = cdt.CDTRegressor(**SMALL).fit(as_texts(frame), y)
    assert model.score(as_texts(frame), y) > 0.99
    expected = model.predict(as_texts(frame))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for other in (
            frame,  # whole numbers, truth values, timestamps
            frame.assign(code=frame.code.astype(float), flag=frame.flag.astype(int)),
            frame.assign(code=frame.code.astype("Int64"), flag=frame.flag.astype("boolean")),
            as_texts(frame).assign(flag=frame.flag.map({True: "TRUE", False: "False"}), day=frame.day.dt.strftime("%d.%m.%Y")),
            as_texts(frame).assign(code=frame.code.astype(float).astype(str), day=frame.day.dt.strftime("%m/%d/%Y")),
        ):
            assert np.array_equal(model.predict(other), expected)
    # The other way round: numbers in training, texts of numbers later.
    model = cdt.CDTRegressor(**SMALL).fit(frame, y)
    assert np.array_equal(model.predict(frame.assign(code=frame.code.astype(str), flag=frame.flag.astype(str))), model.predict(frame))
    with pytest.raises(ValueError, match="expected a number"):
        model.predict(frame.assign(code="many"))


def test_one_empty_cell_harms_one_row():
    frame, y = codes()
    model = cdt.CDTRegressor(**SMALL).fit(as_texts(frame), y)
    hole = frame.copy()
    hole["code"] = hole.code.astype(float)
    hole.loc[7, "code"] = np.nan
    with pytest.warns(UserWarning, match='1 row without a value in column "code"'):
        found = model.predict(hole)
    kept = np.arange(len(y)) != 7
    assert np.array_equal(found[kept], model.predict(as_texts(frame))[kept])


def test_unknown_is_counted_or_refused():
    frame, y = codes()
    texts = as_texts(frame)
    model = cdt.CDTRegressor(**SMALL).fit(texts, y)
    strange = texts.copy()
    strange.loc[:4, "code"] = "77"
    strange.loc[:2, "day"] = "some day"
    with pytest.warns(UserWarning) as found:
        model.predict(strange)
    words = [str(each.message) for each in found]
    assert any('5 rows of column "code"' in each and '"77" first' in each for each in words)
    assert any('3 rows of column "day"' in each for each in words)
    model.set_params(unknown="refuse")
    with pytest.raises(ValueError, match='5 rows of column "code".*refuse'):
        model.predict(strange)
    assert np.isfinite(model.predict(texts)).all()
    with pytest.raises(ValueError, match="unknown must be"):
        model.set_params(unknown="shrug").predict(texts)


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_that_lack_what_none_lacked_have_wide_intervals(seed):
    frame, y = codes(seed=seed)
    model = cdt.CDTRegressor(**SMALL).fit(as_texts(frame), y)
    fresh, truth = codes(1000, seed=seed + 10)
    for column in ("code", "day", "flag"):
        empty = as_texts(fresh)
        empty.loc[: 499, column] = None
        with pytest.warns(UserWarning, match="500 rows"):
            low, high = model.predict_interval(empty, 0.9).T
            mean, std = model.predict(empty, return_std=True)
        held = (low <= truth) & (truth <= high)
        assert held[:500].mean() > 0.86 and held[500:].mean() > 0.7
        assert np.all(std[:500] >= 0.8 * np.std(y)) and np.median(std[500:]) < 0.3 * np.std(y)
        assert np.array_equal(model.predict_interval(as_texts(fresh), 0.9)[500:], np.stack([low, high], 1)[500:])
        assert np.all((low <= mean) & (mean <= high))


def test_columns_are_matched_by_names_that_are_no_text():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(120, 3))
    y = values[:, 0] - 2 * values[:, 2]
    for names in ([10, 20, 30], pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), ["u", "v", "w"]):
        frame = pd.DataFrame(values, columns=names)
        model = cdt.CDTRegressor(**SMALL).fit(frame, y)
        assert model.score(frame, y) > 0.99
        turned = frame.iloc[:, [2, 0, 1]]
        if names[0] == "u":  # scikit-learn refuses those itself
            with pytest.raises(ValueError, match="order"):
                model.predict(turned)
        else:
            assert np.array_equal(model.predict(turned), model.predict(frame))
    with pytest.raises(ValueError, match="expected a column '2000', but the columns are \"2001\""):
        model = cdt.CDTRegressor(**SMALL).fit(pd.DataFrame(values, columns=[10, 2000, 30]), y)
        model.predict(pd.DataFrame(values, columns=[10, 2001, 30]))


def test_numbers_as_people_write_them():
    rng = np.random.default_rng(4)
    rent, share = rng.integers(500, 9000, 150), rng.integers(1, 99, 150)
    frame = pd.DataFrame({"rent": [f"${v:,}.00" for v in rent], "share": [f"{v}%" for v in share], "km": [f"{v / 4} km".replace(".", ",") for v in share]})
    y = rent / 1000.0 + share / 50.0
    model = cdt.CDTRegressor(**SMALL).fit(frame, y)
    assert model.score(frame, y) > 0.98
    assert any("rent: numbers in $" in note for note in model.notes_) and any("share: per cent" in note for note in model.notes_)
    plain = pd.DataFrame({"rent": rent, "share": share, "km": share / 4})
    assert np.allclose(model.predict(plain), model.predict(frame), rtol=1e-12)
    with pytest.raises(ValueError, match="row 0: expected a number"):
        model.predict(frame.assign(share="18 €"))
    days = pd.Series(pd.date_range("2020-01-01", periods=150))
    late = np.arange(150) / 10.0
    model = cdt.CDTRegressor(**SMALL).fit(pd.DataFrame({"day": days.dt.strftime("%m/%d/%Y"), "share": share}), late)
    assert any("month before the day" in note for note in model.notes_) and model.score(pd.DataFrame({"day": days, "share": share}), late) > 0.98
    with pytest.warns(UserWarning, match="--dates"):
        open_ = pd.DataFrame({"day": [f"{1 + i % 12}/{1 + i % 7}/2020" for i in range(60)], "x": rng.normal(size=60)})
        cdt.CDTRegressor(**SMALL).fit(open_, open_.x)


    model = cdt.CDTRegressor(options={"dates": "month-day"}, **SMALL).fit(open_, open_.x)
    assert any("month before the day" in note for note in model.notes_)


def test_whole_numbers_keep_their_identity():
    rng = np.random.default_rng(5)
    kind = rng.integers(0, 4, 160)
    y = np.array([0.0, 4.0, 1.0, 7.0])[kind] + 0.05 * rng.normal(size=160)
    frame = pd.DataFrame({"key": 2**53 + 1 + kind, "x": rng.normal(size=160)})
    model = cdt.CDTRegressor(**SMALL).fit(frame, y)
    assert model.score(frame, y) > 0.99
    nullable = frame.astype({"key": "Int64"})
    nullable.loc[3, "key"] = pd.NA
    with pytest.warns(UserWarning, match="without a value"):
        found = model.predict(nullable)
    assert np.array_equal(np.delete(found, 3), np.delete(model.predict(frame), 3))
    with pytest.warns(UserWarning, match="rounded"):
        cdt.CDTRegressor(**SMALL).fit(pd.DataFrame({"key": 10**17 + 1000 * rng.integers(0, 10**6, 60) + 1, "x": rng.normal(size=60)}), rng.normal(size=60))
