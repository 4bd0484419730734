"""Type hints: the package by mypy, strictly; the stub of the extension against the extension."""

import ast
import os
import pathlib
import shutil
import subprocess

import pytest

import cdt

SOURCE = pathlib.Path(os.environ["CDT_SOURCE"])
CACHE = pathlib.Path(cdt.__file__).parent.parent / "mypy"  # of the build, so that only the first run is slow


@pytest.mark.skipif(shutil.which("mypy") is None, reason="mypy is missing (Debian: mypy)")
def test_mypy():
    done = subprocess.run(
        ["mypy", "--config-file", SOURCE / "python" / "mypy.ini", "--cache-dir", CACHE, SOURCE / "python" / "cdt"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _members(thing):
    return {name for name in vars(thing) if not name.startswith("_") or name == "__init__"}


def test_stub_has_what_the_extension_has():
    stub = ast.parse((SOURCE / "python" / "cdt" / "_core.pyi").read_text())
    named = {node.name: node for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert set(named) == {name for name in vars(cdt._core) if not name.startswith("_")}
    for name, node in named.items():
        if not isinstance(node, ast.ClassDef):
            continue
        found = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        found |= {part.target.id for part in node.body if isinstance(part, ast.AnnAssign)}
        assert found == _members(getattr(cdt._core, name)) - ({"__init__"} if "__init__" not in found else set()), name
