#!/usr/bin/env python3
"""The Python examples as notebooks, executed. usage: docs/notebooks.py OUT [EXAMPLE.py …]   (PYTHONPATH must have the module)

The docstring becomes text, each group of definitions a cell, and what an example does as a program its last cell.
"""
import ast
import itertools
import os
import pathlib
import shutil
import sys
import textwrap

import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

# Of the kernel that runs them: nothing about widgets and debuggers.
os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples" / "python"
SHARED = [EXAMPLES / "beside_adam.py"]  # what examples import: lies beside the notebooks


def cells_of(source):
    tree, lines = ast.parse(source), source.splitlines()
    yield nbformat.v4.new_markdown_cell(_text(ast.get_docstring(tree)))
    for kind, nodes in itertools.groupby(tree.body[1:], key=_kind):
        nodes = list(nodes)
        if kind == "main":
            nodes = nodes[0].body
        first = nodes[0].lineno - len(getattr(nodes[0], "decorator_list", []))
        yield nbformat.v4.new_code_cell(textwrap.dedent("\n".join(lines[first - 1 : nodes[-1].end_lineno])))


def _kind(node):
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return "imports"
    return "main" if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) else "code"


def _text(docstring):
    """Indented parts, such as a diff, stay as they are."""
    head, *rest = docstring.split("\n\n", 1)
    body = rest[0] if rest else ""
    return f"{head}\n\n" + (f"```diff\n{textwrap.dedent(body)}\n```" if body.startswith("  ") else body)


def main(out, examples):
    out.mkdir(parents=True, exist_ok=True)
    for path in SHARED:
        shutil.copy(path, out)
    for path in examples:
        notebook = nbformat.v4.new_notebook(cells=list(cells_of(path.read_text())))
        notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        ExecutePreprocessor(timeout=900, kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(out)}})
        temporary = out / f".{path.stem}.ipynb"
        nbformat.write(notebook, temporary)
        temporary.rename(out / f"{path.stem}.ipynb")
        print(out / f"{path.stem}.ipynb")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), [pathlib.Path(name) for name in sys.argv[2:]] or sorted(set(EXAMPLES.glob("*.py")) - set(SHARED)))
