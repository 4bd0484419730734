#!/usr/bin/env python3
"""Checks that modules include only what the architecture allows (docs/design.md, Modules)."""
import pathlib
import re
import sys

# module -> the modules that it may include besides itself
ALLOWED = {
    "core": set(),
    "kernel": {"core"},
    "nn": {"kernel", "core"},
    "data": {"core"},
    "report": {"core"},
    "dynamics": {"core"},
    "control": {"dynamics", "core"},
    "analysis": {"control", "dynamics", "core"},
    "train": {"analysis", "control", "dynamics", "kernel", "core"},
    "run": {"report", "core"},
    "experiment": {"run", "report", "core"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def violations(root):
    for path in sorted(root.glob("cdt/**/*")):
        if path.suffix not in {".h", ".cpp", ".cu"}:
            continue
        module = path.relative_to(root / "cdt").parts[0]
        if module not in ALLOWED:
            yield f"{path.relative_to(root)}: the module '{module}' is not in the table of this script"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(1)
            where = f"{path.relative_to(root)}:{number}"
            if target.startswith("cdt/"):
                other = target.split("/")[1]
                if other != module and other not in ALLOWED[module]:
                    yield f"{where}: {module} may not include {other} ({target})"
            elif target.split("/")[0] in ALLOWED and (root / "cdt" / target).exists():
                yield f"{where}: write <cdt/{target}>, not {target}"


if __name__ == "__main__":
    found = list(violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found) if found else "the include arrows hold")
    sys.exit(1 if found else 0)
