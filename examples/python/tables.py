"""A real table: CDTRegressor beside scikit-learn's network and its gradient boosting, on the same splits. (442 patients, ten measurements, and how far their diabetes had come a year later.)"""

import time

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cdt


def models(seed):
    return {
        "CDTRegressor": cdt.CDTRegressor(random_state=seed),
        "MLPRegressor": make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=(256, 256), early_stopping=True, max_iter=1000, random_state=seed)),
        "gradient boosting": GradientBoostingRegressor(random_state=seed),
    }


def compare(X, y, seeds):
    """Test MSE over variance by model, a value for each split; the seconds that fits took; the models."""
    errors, seconds, fitted = {}, {}, {}
    for seed in seeds:
        parts = train_test_split(X, y, test_size=0.3, random_state=seed)
        X_train, X_test, y_train, y_test = parts
        for name, model in models(seed).items():
            started = time.perf_counter()
            fitted[name, seed] = model.fit(X_train, y_train)
            seconds[name] = seconds.get(name, 0) + (time.perf_counter() - started) / len(seeds)
            errors.setdefault(name, []).append(np.mean((model.predict(X_test) - y_test) ** 2) / np.var(y_test))
    return errors, seconds, fitted


if __name__ == "__main__":
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    errors, seconds, fitted = compare(X, y, seeds=[1, 2, 3])
    print("test MSE ÷ variance, mean of three splits")
    for name, each in errors.items():
        print(f"  {name:18} {np.mean(each):.3f}   {seconds[name]:.1f} s a fit")
    mean = {name: np.mean(each) for name, each in errors.items()}
    assert mean["CDTRegressor"] < mean["MLPRegressor"] and mean["CDTRegressor"] < mean["gradient boosting"]

    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=1)
    model = fitted["CDTRegressor", 1]
    print(model.expected_[0]["text"])
    bounds = model.predict_interval(X_test, coverage=0.9)
    held = np.mean((bounds[:, 0] <= y_test) & (y_test <= bounds[:, 1]))
    print(f"90 % intervals hold {100 * held:.0f} % of the test rows")
    assert 0.8 < held < 0.98
