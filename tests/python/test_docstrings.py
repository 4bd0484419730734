"""The examples in the docstrings of the package print what they say, and every public name has a docstring."""

import doctest
import importlib
import pathlib

import pytest

import cdt

MODULES = sorted(path.stem for path in pathlib.Path(cdt.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("stem", MODULES)
def test_examples(stem):
    if stem == "estimators":
        pytest.importorskip("sklearn")
    module = importlib.import_module("cdt" if stem == "__init__" else f"cdt.{stem}")
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.failed == 0
    assert found.attempted > 0 or stem.startswith("_")


@pytest.mark.parametrize("name", [name for name in cdt.__all__ if not name.startswith("_")])
def test_public_names_are_documented(name):
    if name in ("CDTClassifier", "CDTRegressor"):
        pytest.importorskip("sklearn")
    assert getattr(cdt, name).__doc__
