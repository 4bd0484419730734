"""The wheel, in a fresh virtual environment with system packages."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
import torch

import cdt

for need in ("build", "setuptools", "wheel", "ensurepip"):
    found = importlib.util.find_spec(need)
    if found is None or found.origin is None:  # a folder of that name is none
        pytest.skip(f"{need} is missing (Debian: python3-build, python3-setuptools, python3-wheel, python3-venv)", allow_module_level=True)
SOURCE = pathlib.Path(os.environ["CDT_SOURCE"])
BUILD = pathlib.Path(cdt.__file__).parents[2]


def test_wheel_installs_and_works(tmp_path):
    subprocess.run([SOURCE / "python" / "wheel.sh", BUILD, tmp_path, sys.executable], check=True, timeout=300)
    (wheel,) = tmp_path.glob("cdt-*.whl")
    assert f"cp{sys.version_info[0]}{sys.version_info[1]}" in wheel.name
    fresh = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if sys.prefix != sys.base_prefix:  # the packages of this environment are no system packages
        fresh["PYTHONPATH"] = os.path.dirname(os.path.dirname(torch.__file__))
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv"], check=True, env=fresh)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel], check=True, env=fresh)
    code = "import torch, cdt; print(cdt.__file__); print(cdt.__version__); print(cdt.ntk(torch.nn.Linear(2, 1), torch.eye(2)).sum().item())"
    done = subprocess.run([python, "-c", code], check=True, env=fresh, cwd=tmp_path, capture_output=True, text=True)
    where, version, total = done.stdout.split()
    assert where.startswith(str(tmp_path / "venv")) and version == cdt.__version__ and float(total) == 6.0
    # Another PyTorch, and another Python, are refused in words.
    for change, words in (("torch.__version__ = '9.9'", "built for PyTorch"), ("sys.version_info = (9, 9)", "built for Python")):
        refused = subprocess.run([python, "-c", f"import sys, torch; {change}; import cdt"], env=fresh, cwd=tmp_path, capture_output=True, text=True)
        assert f"ImportError: this cdt was {words}" in refused.stderr and "9.9" in refused.stderr
