#!/usr/bin/env python3
"""The guide as a site that works from a folder: docs/site.py BUILD OUT   (PYTHONPATH must have the module)

Pages of docs/, the reference (Doxygen over the public headers, docstrings, --help of each command), the notebooks of OUT, and report pages that the program
makes. Sphinx's warnings and Doxygen's are errors.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import nbformat
from headers import pages
from nbconvert import MarkdownExporter

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What pages link to outside docs/.
BESIDE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "bench/RESULTS.md", "examples", "experiments"]
MODULES = {  # what each is for
    "core": "Tensors, files, errors, interruptions.",
    "loss": "Losses and their coordinates.",
    "nn": "Networks, architectures, their files.",
    "kernel": "Tangent kernels, linearizations, products.",
    "dynamics": "Modes and what descent does to them.",
    "control": "Plants, controllers, certificates, Riccati equations.",
    "analysis": "What can be said before training.",
    "train": "The training loop and its guard.",
    "data": "Tables: reading, splitting, encoding.",
    "image": "Pictures: JPEG, PNG, IDX.",
    "report": "Pages with figures.",
    "study": "From data to a trained predictor.",
    "run": "The folder of a run.",
    "experiment": "Sweeps.",
    "distributed": "Several processes and machines.",
}


def public_headers():
    """Headers directly in a module's folder are public, those in folders below it are not."""
    return sorted((ROOT / "cdt").glob("*/*.h"))


def assemble(source, out):
    shutil.rmtree(source, ignore_errors=True)
    ignored = shutil.ignore_patterns("*.py", "__pycache__")
    shutil.copytree(ROOT / "docs", source / "docs", ignore=ignored)
    for name in BESIDE:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)
    for page in (source / "README.md", *(source / "docs").rglob("*.md")):
        page.write_text(re.sub(r"^<!--(?:python|cpp|sh)\n.*?^-->\n?", "\n", page.read_text(), flags=re.M | re.S))
    shutil.copy(ROOT / "docs" / "conf.py", source)
    (source / "docs" / "static").mkdir(exist_ok=True)
    (source / "extra").mkdir()
    (source / "extra" / "index.html").write_text('<!doctype html><meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">cdt</a>\n')


def notebooks(out, folder):
    """The executed notebooks as pages."""
    folder.mkdir(parents=True)
    titles = []
    for path in sorted(out.glob("*.ipynb")):
        body, resources = MarkdownExporter().from_notebook_node(nbformat.read(path, as_version=4), {"output_files_dir": f"{path.stem}_files"})
        body = re.sub(r"\x1b\[[0-9;]*m", "", body)
        if not body.startswith("# "):
            first, _, rest = body.lstrip().partition("\n")
            body = f"# {path.stem.replace('_', ' ').capitalize()}\n\n{first}\n{rest}"
        (folder / f"{path.stem}.md").write_text(body)
        for name, data in resources["outputs"].items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
        shutil.copy(path, folder)
        titles.append(path.stem)
    if titles:
        (folder / "index.md").write_text(
            "# Examples, executed\n\nThe programs of `examples/python`, with what they print and draw.\n\n```{toctree}\n" + "\n".join(titles) + "\n```\n"
        )


def command_line(program, folder):
    """A page from --help of each command."""
    help_of = lambda *command: subprocess.run([program, *command], check=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"}).stdout
    commands = re.findall(r"^  (\w[\w-]*) ", help_of("--help").split("Subcommands:")[-1].split("Exit codes")[0], flags=re.M)
    assert "train" in commands, "cdt --help lists no commands"
    text = ["# Command line", "What `cdt COMMAND --help` prints. [Settings of a run](settings.md) lists what `train` reads, with types and ranges.", "", "```none", help_of("--help").rstrip(), "```"]
    for command in commands:
        full = "--help-all" if "--help-all" in help_of(command, "--help") else "--help"
        text += ["", f"## cdt {command}", "", "```none", help_of(command, full).rstrip(), "```"]
        for sub in re.findall(r"^  ([a-z][\w-]*)  +\S", help_of(command, "--help").partition("Subcommands:")[2], flags=re.M):
            text += ["", f"### cdt {command} {sub}", "", "```none", help_of(command, sub, "--help").rstrip(), "```"]
    (folder / "cli.md").write_text("\n".join(text) + "\n")


def reference(out, folder):
    """The public headers, by Doxygen, as a page for each module."""
    shutil.rmtree(out / "doxygen", ignore_errors=True)
    (out / "doxygen").mkdir(parents=True)
    # Without its rule that a comment's first sentence ends at the first point: "(eq. 7)".
    settings = (ROOT / "docs" / "Doxyfile").read_text() + f"OUTPUT_DIRECTORY = {out / 'doxygen'}\nJAVADOC_AUTOBRIEF = NO\n"
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True, cwd=ROOT)
    pages(out / "doxygen" / "xml", ROOT, [str(path.relative_to(ROOT)) for path in public_headers()], folder, MODULES)


def gallery(program, work, pages):
    """Report pages of three small runs."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    pages.mkdir(parents=True)
    run = lambda *command: subprocess.run([program, *command, "--quiet"] if command[0] != "data" else [program, *command], check=True, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run("data", "make", "houses.csv", "--rows", "600")
    run("train", "houses.csv", "--target", "price", "--importance", "--out", "table")
    run("train", "houses.csv", "--target", "district", "--drop", "price", "--out", "classes")
    run("compare", "houses.csv", "--target", "price", "--rows", "200", "--seeds", "2", "--steps", "200", "--out", "sweep")
    for name in ("table", "classes", "sweep"):
        shutil.copy(work / name / "report.html", pages / f"{name}.html")


def mend_furo(static):
    """Debian 12's furo has its script in two modules, which a page from a folder may not load, its style sheet names a place on a server, and the rule is gone
    by which the system's dark mode is followed. Other versions have none of that, and are left alone."""
    script, style = static / "scripts" / "furo.js", static / "styles" / "furo.css"
    text = script.read_text()
    if text.startswith("import Gumshoe"):
        script.write_text((static / "scripts" / "gumshoe-patched.js").read_text() + text.partition("\n")[2])
    text = style.read_text()
    shared = pathlib.Path("/usr/share/javascript/normalize.css/normalize.css")
    if "@import url(/javascript/normalize.css" in text and shared.exists():
        text = re.sub(r"@import url\(/javascript/[^)]*\);", lambda _: shared.read_text(), text, count=1)
    dark = re.search(r'body\[data-theme="dark"\] (\{[^}]*\})', text)
    if dark and "prefers-color-scheme" not in text:
        text += f'@media not print {{ @media (prefers-color-scheme: dark) {{ body:not([data-theme="light"]) {dark[1]} }} }}\n'
    style.write_text(text)


def main(build, out):
    source, site, program = out / "source", out / "site", build / "cdt"
    assemble(source, out)
    notebooks(out, source / "docs" / "notebooks")
    command_line(program, source / "docs" / "reference")
    reference(out, source / "docs" / "reference" / "cpp")
    gallery(program, out / "runs", source / "extra" / "docs" / "gallery")
    import cdt

    environment = {**os.environ, "CDT_VERSION": cdt.__version__}
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto", "-d", out / "doctrees", source, site], check=True, env=environment)
    mend_furo(site / "_static")
    print(f"{site / 'index.html'}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
