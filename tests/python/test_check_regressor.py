"""scikit-learn's own checks of an estimator: some fifty, each with fits of its own. Small networks, so that they end soon; nothing else is special."""

import pytest

import cdt
from sklearn_checks import checks_of

CHECKS = checks_of(cdt.CDTRegressor(hidden=(16,), ensemble=2))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator, check", CHECKS, ids=[f"{check.func.__name__}-{i}" for i, (_, check) in enumerate(CHECKS)])
def test_check(estimator, check):
    check(estimator)


def test_there_are_checks():
    assert len(CHECKS) > 40
