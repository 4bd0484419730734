#!/usr/bin/env python3
"""Checks that modules include only what the architecture allows (docs/design.md, Modules), and that cdt/cdt.h has every
public header of the library cdt::cdt, and that headers include what they throw."""
import pathlib
import re
import sys

# module -> the modules that it may include besides itself
ALLOWED = {
    "core": set(),
    "kernel": {"core"},
    "nn": {"kernel", "core"},
    "data": {"core"},
    "image": {"core"},
    "loss": {"core"},
    "dynamics": {"loss", "core"},
    "control": {"dynamics", "loss", "core"},
    "analysis": {"control", "dynamics", "loss", "core"},
    "train": {"analysis", "control", "dynamics", "loss", "kernel", "core"},
    "distributed": {"train", "core"},
    "study": {"train", "nn", "data", "image", "analysis", "control", "dynamics", "loss", "kernel", "core"},
    "report": {"study", "train", "nn", "data", "image", "analysis", "control", "dynamics", "loss", "kernel", "core"},
    "run": {"study", "report", "train", "nn", "data", "analysis", "control", "dynamics", "loss", "kernel", "core"},
    "experiment": {"run", "study", "report", "train", "nn", "data", "analysis", "control", "dynamics", "loss", "kernel", "core"},
}
# The modules of cdt::cdt. A header directly in a module's folder is public, one in a folder below it is not.
UMBRELLA = ("core", "loss", "dynamics", "control", "analysis", "kernel", "nn", "train")
# LibTorch's own file formats are programs: nothing that is loaded may execute
EXECUTES = ("torch/serialize", "torch/script", "torch/jit", "torch/csrc/jit")
ERROR = re.compile(r"\b(InvalidArgument|IoError|NumericalError)\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def violations(root):
    for path in sorted(root.glob("cdt/**/*")):
        if path.suffix not in {".h", ".cpp", ".cu"}:
            continue
        if path.name == "cdt.h":
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
            if target.startswith(EXECUTES):
                yield f"{path.relative_to(root)}:{number}: {target} loads files by executing what they contain"
            where = f"{path.relative_to(root)}:{number}"
            if target.startswith("cdt/"):
                other = target.split("/")[1]
                if other != module and other not in ALLOWED[module]:
                    yield f"{where}: {module} may not include {other} ({target})"
            elif target.split("/")[0] in ALLOWED and (root / "cdt" / target).exists():
                yield f"{where}: write <cdt/{target}>, not {target}"


def undeclared_errors(root):
    """Headers that name an error without the header that declares it: whoever includes one of them wants to catch it."""
    for path in sorted(root.glob("cdt/**/*.h")):
        text = path.read_text()
        if ERROR.search(text) and path.name != "error.h" and "#include <cdt/core/error.h>" not in text:
            yield f"{path.relative_to(root)}: names {ERROR.search(text).group(0)}, and does not include <cdt/core/error.h>"


def public_details(root):
    """Public headers that include one that is not installed."""
    for path in sorted(root.glob("cdt/*/*.h")):
        for target in filter(None, map(INCLUDE.match, path.read_text().splitlines())):
            if re.fullmatch(r"cdt/\w+/\w+/.*", target.group(1)):
                yield f"{path.relative_to(root)}: is public, and includes {target.group(1)}, which is not"


def umbrella_gaps(root):
    included = {m.group(1) for m in map(INCLUDE.match, (root / "cdt/cdt.h").read_text().splitlines()) if m}
    public = {f"cdt/{module}/{path.name}" for module in UMBRELLA for path in (root / "cdt" / module).glob("*.h")}
    public.add("cdt/core/version.h")  # made by CMake
    for header in sorted(public - included):
        yield f"cdt/cdt.h: lacks {header}; a header that is not public belongs in a folder below its module's"
    for header in sorted(included - public):
        yield f"cdt/cdt.h: {header} is of another library, or not there"


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = [*violations(folder), *undeclared_errors(folder), *public_details(folder), *umbrella_gaps(folder)]
    print("\n".join(found) if found else "the include arrows hold")
    sys.exit(1 if found else 0)
