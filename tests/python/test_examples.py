"""The examples, as scripts: each checks what it claims."""

import os
import pathlib
import runpy

import pytest

EXAMPLES = pathlib.Path(os.environ["CDT_SOURCE"]) / "examples" / "python"
SHARED = ["beside_adam"]  # what two of them use


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in SHARED))
def test_example(name, monkeypatch):
    if name == "tables":
        pytest.importorskip("sklearn")
        pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
