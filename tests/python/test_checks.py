"""scikit-learn's own checks of both estimators: some fifty each, with fits of their own. Small networks, so that they end soon; nothing else is special."""

import pytest

pytest.importorskip("sklearn")
from sklearn.utils import estimator_checks  # noqa: E402

import cdt  # noqa: E402

# Rows decide by being held out: a row of weight two is held out once, two equal rows may be on both sides.
OTHERWISE = {"check_sample_weight_equivalence_on_dense_data": "rows are held out, so a weight is not a repetition (as of scikit-learn's own models with early stopping)"}


def checks_of(estimator):
    """Pairs of an estimator and a check, as the installed version gives them."""
    if hasattr(estimator_checks, "estimator_checks_generator"):  # 1.6 and later
        return list(estimator_checks.estimator_checks_generator(estimator))
    return list(estimator_checks.check_estimator(estimator, generate_only=True))


CHECKS = [pair for made in (cdt.CDTClassifier, cdt.CDTRegressor) for pair in checks_of(made(hidden=(8,), ensemble=1))]


def name_of(check):
    return getattr(check, "func", check).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator, check", CHECKS, ids=[f"{type(estimator).__name__}-{name_of(check)}-{i}" for i, (estimator, check) in enumerate(CHECKS)])
def test_check(estimator, check, request):
    if name_of(check) in OTHERWISE:
        request.applymarker(pytest.mark.xfail(reason=OTHERWISE[name_of(check)], strict=True))
    check(estimator)


def test_there_are_checks():
    assert len(CHECKS) > 80
