#!/usr/bin/env python3
"""Runs the shell blocks of the guide as a reader would: docs_shell.py PROGRAM FILE.md …

The ```sh blocks of a page run in their order in one empty folder, with the program as `cdt` on the PATH; the first command that fails ends it. To be quick,
tables have at most 150 rows, runs 30 steps and sweeps one seed. Pages that also have ```python blocks are left to tests/python/test_docs.py, which takes both.
```bash blocks are for what cannot run here: other machines, data that are not ours to keep, installation.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

OPEN = {"```sh": ("sh", "```"), "<!--sh": ("sh", "-->"), "```python": ("python", "```"), "<!--python": ("python", "-->")}
MOST = {"--rows": 150, "--steps": 30, "--seeds": 1}


def blocks(path):
    """(language, first line, text) of each block that runs."""
    found, end = [], None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if end:
            if line.strip() == end:
                end = None
            else:
                found[-1][2].append(line)
        elif line.strip() in OPEN:
            language, end = OPEN[line.strip()]
            found.append((language, number + 1, []))
    if end:
        sys.exit(f"{path}: a block does not end")
    return [(language, line, "\n".join(text) + "\n") for language, line, text in found]


def shrink(text):
    """The same commands on less data."""
    smaller = lambda match: f"{match[1]} {min(int(match[2]), MOST[match[1]])}"
    return re.sub(rf"({'|'.join(MOST)}) (\d+)", smaller, text)


def run(text, program, folder):
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "PATH": f"{pathlib.Path(program).resolve().parent}:{os.environ['PATH']}"}
    # Passive: beside other tests, threads that spin while they wait take the time of those that work.
    return subprocess.run(["bash", "-euo", "pipefail", "-c", shrink(text)], cwd=folder, env=environment, capture_output=True, text=True)


def main(program, paths):
    failed = ran = 0
    for path in paths:
        found = blocks(path)
        if not found or any(language == "python" for language, _, _ in found):
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for _, line, text in found:
                result = run(text, program, folder)
                ran += 1
                if result.returncode:
                    print(f"{path}:{line}: exit code {result.returncode}\n{text}{result.stdout[-800:]}{result.stderr[-800:]}")
                    failed += 1
                    break
        print(f"{path.name}: {time.monotonic() - started:.1f} s")
    if not ran:
        print("no page has a block that runs")
    return bool(failed) or not ran


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], [pathlib.Path(name) for name in sys.argv[2:]]))
