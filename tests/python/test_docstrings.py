"""Runs the examples in the docstrings of the package; fails if one does not print what it says, or if a public name has none."""

import doctest
import importlib
import inspect
import pathlib
import sys

import cdt

tried = failed = 0
for path in sorted(pathlib.Path(cdt.__file__).parent.glob("*.py")):
    name = "cdt" if path.stem == "__init__" else f"cdt.{path.stem}"
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    tried, failed = tried + result.attempted, failed + result.failed
bare = [name for name in cdt.__all__ if not name.startswith("_") and not inspect.getdoc(getattr(cdt, name))]
if bare:
    print("without a docstring:", ", ".join(bare))
print(f"{tried} examples, {failed} failed")
sys.exit(bool(failed or bare or not tried))
