"""scikit-learn's checks of an estimator, one by one."""

from sklearn.utils import estimator_checks


def checks_of(estimator):
    """Pairs of an estimator and a check, as the installed version gives them."""
    if hasattr(estimator_checks, "estimator_checks_generator"):  # 1.6 and later
        return list(estimator_checks.estimator_checks_generator(estimator))
    return list(estimator_checks.check_estimator(estimator, generate_only=True))
