#!/usr/bin/env python3
"""Checks that installed headers need LibTorch alone: no header of another library, none of ours that stayed behind.

Where the other libraries are in the compiler's own folders, compiling the headers would not show it.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
LIBTORCH = {"torch", "ATen", "c10"}


def violations(root):
    headers = sorted((root / "cdt").rglob("*.h"))
    if not headers:
        yield f"{root}: expected installed headers, got none"
    for path in headers:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            where = f"{path.relative_to(root)}:{number}"
            first = target.split("/")[0]
            if first == "cdt":
                if not (root / target).exists():
                    yield f"{where}: <{target}> is not installed"
            elif "." in target and first not in LIBTORCH:  # C++'s own headers have no dot
                yield f"{where}: <{target}> belongs to a library that users may lack"


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "installed headers need LibTorch alone")
    sys.exit(1 if found else 0)
