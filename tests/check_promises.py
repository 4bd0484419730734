#!/usr/bin/env python3
"""Every test that docs/promises.md names must exist.

usage: check_promises.py ROOT
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
known = set()
for source in root.glob("tests/*/*.cpp"):
    known.update(f"{suite}.{name}" for suite, name in re.findall(r"TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", source.read_text()))
text = (root / "docs/promises.md").read_text()
named = re.findall(r"`([A-Z]\w*\.[A-Z]\w*)`", text)
missing = [name for name in named if name not in known]
for name in missing:
    print(f"docs/promises.md: there is no test {name}")
if not named:
    print("docs/promises.md names no test")
sys.exit(bool(missing) or not named)
