"""ctest says where things are; without it, `PYTHONPATH=build/python python3 -m pytest tests/python` finds them itself."""

import importlib.util
import os
import pathlib
import shutil

import torch

import cdt

torch.set_num_threads(1)
os.environ.setdefault("CDT_SOURCE", str(pathlib.Path(__file__).resolve().parents[2]))
os.environ.setdefault("CDT_PROGRAM", str(pathlib.Path(cdt.__file__).parents[2] / "cdt"))
os.environ.setdefault("MPLBACKEND", "Agg")


def _there(need):
    return importlib.util.find_spec(need) is not None or shutil.which(need) is not None


_NEEDS = {
    "test_check_classifier.py": ["sklearn"],
    "test_check_regressor.py": ["sklearn"],
    "test_estimators.py": ["sklearn", "pandas"],
    "test_loading.py": ["sklearn", "pandas", os.environ["CDT_PROGRAM"]],
    "test_types.py": ["mypy"],
    "test_wheel.py": ["build", "setuptools", "wheel"],
}
# One that is named on the command line, as ctest does, is not left out: it fails.
_LEFT_OUT = {name: missing for name, needs in _NEEDS.items() if (missing := [need for need in needs if not _there(need)])}
collect_ignore = list(_LEFT_OUT)


def pytest_report_header():
    return [f"left out: {name}, which needs {', '.join(missing)}" for name, missing in _LEFT_OUT.items()]
