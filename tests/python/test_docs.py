"""The Python of the guide, page by page: its blocks in their order, in one namespace, with the shell's blocks of the page between them."""

import os
import pathlib
import sys

import pytest

SOURCE = pathlib.Path(os.environ["CDT_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests"))

from docs_shell import blocks, run  # noqa: E402

GUIDE = [SOURCE / "README.md", SOURCE / "docs" / "python.md", *sorted(SOURCE.glob("docs/tutorials/*.md")), *sorted(SOURCE.glob("docs/how-to/*.md"))]
# Not the program's words: what a reader is told to install is skipped where it is missing.
OPTIONAL = ("matplotlib", "sklearn", "scikit-learn", "pandas", "PIL", "onnx", "onnxscript")


def pages():
    """Pages with Python; README's commands are those of the tutorials."""
    for path in GUIDE:
        found = blocks(path)
        if any(language == "python" for language, _, _ in found):
            yield path, [block for block in found if path.name != "README.md" or block[0] == "python"]


def execute(path, found, folder):
    names = {"__name__": "docs"}
    for language, line, text in found:
        if language == "sh":
            result = run(text, os.environ["CDT_PROGRAM"], folder)
            assert result.returncode == 0, f"{path}:{line}: {result.stdout}{result.stderr}"
            continue
        try:
            exec(compile("\n" * (line - 1) + text, str(path), "exec"), names)
        except Exception as error:
            if isinstance(error, ImportError) or "not installed" in str(error):
                missing = [name for name in OPTIONAL if name in str(error)]
                if missing:
                    pytest.skip(f"{path.name} needs {missing[0]}")
            raise


@pytest.mark.parametrize("path, found", [pytest.param(*page, id=str(page[0].relative_to(SOURCE))) for page in pages()])
def test_page(path, found, tmp_path, monkeypatch, capsys):
    try:
        import matplotlib
    except ImportError:
        pytest.skip("the guide draws with matplotlib")
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    execute(path, found, tmp_path)
    if path.name == "python.md":
        assert (tmp_path / "losses.png").stat().st_size > 1000
        assert "gradient descent" in capsys.readouterr().out
    if path.name == "estimators.md":
        assert "on new rows" in capsys.readouterr().out
        assert (tmp_path / "model.pt").stat().st_size > 1000 and (tmp_path / "model.onnx").stat().st_size > 1000
    if path.name == "README.md":
        assert float(capsys.readouterr().out) < 1e-3


def test_every_page_with_python_is_known():
    assert len(list(pages())) >= 8
