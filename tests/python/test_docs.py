"""The Python of docs/python.md, run in its order, in one namespace."""

import os
import pathlib
import re

import pytest

SOURCE = pathlib.Path(os.environ["CDT_SOURCE"])


def test_python_md(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    text = (SOURCE / "docs" / "python.md").read_text()
    names = {"__name__": "docs"}
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) > 5
    for block in blocks:
        line = text[: text.index(block)].count("\n") + 1
        exec(compile("\n" * (line - 1) + block, "docs/python.md", "exec"), names)
    assert (tmp_path / "losses.png").stat().st_size > 1000
    assert "gradient descent" in capsys.readouterr().out
