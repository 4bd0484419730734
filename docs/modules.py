#!/usr/bin/env python3
"""Draws docs/modules.svg, the modules and which includes which, from the #include lines themselves.

usage: docs/modules.py [--check]   (--check: fail if the picture is not that of the sources)

A module stands above everything that it includes. Arrows that follow from others (a includes b, b includes c, so a may as well
include c) are left out, and those to core, which all modules include.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "modules.svg"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](?:cdt/)?(\w+)/[^>"]+[>"]', re.M)
GROUND = "core"  # everything stands on it
WIDTH, BOX, HEIGHT, GAP, TOP = 920, 132, 46, 44, 16
SAYS = {
    "core": "errors, files, formats",
    "loss": "values, curvature",
    "dynamics": "modes, curves",
    "control": "plant, laws, certificate",
    "analysis": "the pre-flight report",
    "kernel": "NTK, layer rules, steps",
    "nn": "networks, model files",
    "data": "tables, samples",
    "image": "pictures, digits",
    "train": "loop, methods, guard",
    "distributed": "ranks on c10d",
    "report": "pages, figures",
    "study": "decision, problem, record",
    "run": "run folders",
    "experiment": "sweeps",
    "cli": "the program",
    "python": "the Python module",
}


def includes():
    """module -> the modules that its files include"""
    folders = {path.name: path for path in (ROOT / "cdt").iterdir() if path.is_dir()}
    folders["cli"] = ROOT / "cli"
    folders["python"] = ROOT / "python"
    found = {}
    for module, folder in sorted(folders.items()):
        files = [path for path in folder.rglob("*") if path.suffix in {".h", ".cpp", ".cu"}]
        names = {name for path in files for name in INCLUDE.findall(path.read_text())}
        found[module] = {name for name in names if name in folders and name != module}
    return found


def below(module, graph):
    reached, todo = set(), [module]
    while todo:
        for other in graph[todo.pop()]:
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return reached


def draw(graph):
    under = {module: below(module, graph) for module in graph}
    loops = [module for module in graph if module in under[module]]
    if loops:
        sys.exit(f"modules include each other: {', '.join(loops)}")
    direct = {m: {o for o in graph[m] if not any(o in under[other] for other in graph[m])} for m in graph}
    level = {}  # as high as the modules allow that include it
    for module in sorted(graph, key=lambda m: -len(under[m])):
        level[module] = min((level[user] for user in graph if module in graph[user]), default=len(graph)) - 1
    lowest = min(level.values())
    level = {module: at - lowest for module, at in level.items()}
    highest = max(level.values())
    place = {}
    for at in range(highest, -1, -1):
        row = sorted(m for m in graph if level[m] == at)
        users = {m: [place[u][0] for u in graph if m in direct[u]] for m in row}
        row.sort(key=lambda m: (sum(users[m]) / max(1, len(users[m])), m))  # near the middle of what is above
        for i, module in enumerate(row):
            place[module] = (WIDTH * (i + 1) / (len(row) + 1), TOP + (highest - at) * (HEIGHT + GAP))
    tall = TOP * 2 + highest * (HEIGHT + GAP) + HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" font-family="sans-serif" text-anchor="middle">',
        "<title>The modules and which includes which</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#5b6b7f"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{tall}" fill="#ffffff"/>',
    ]
    for module in sorted(graph):
        x, y = place[module]
        for other in sorted(direct[module] - {GROUND}):
            to_x, to_y = place[other]
            bend = (y + HEIGHT + to_y) / 2
            lines.append(
                f'<path d="M{x:.0f} {y + HEIGHT:.0f}C{x:.0f} {bend:.0f} {to_x:.0f} {bend:.0f} {to_x:.0f} {to_y:.0f}" '
                'fill="none" stroke="#5b6b7f" stroke-width="1.3" marker-end="url(#tip)"/>'
            )
    for module in sorted(graph):
        x, y = place[module]
        fill = "#fdf3e1" if module in ("cli", "python") else "#e8f0fa"
        wide = WIDTH - 300 if module == GROUND else BOX
        lines.append(
            f'<rect x="{x - wide / 2:.0f}" y="{y:.0f}" width="{wide}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="#33506e"/>'
            f'<text x="{x:.0f}" y="{y + 20:.0f}" font-size="15" font-weight="bold" fill="#1c2b3a">{module}</text>'
            f'<text x="{x:.0f}" y="{y + 37:.0f}" font-size="10.5" fill="#3d4d5e">{SAYS.get(module, "")}</text>'
        )
    return "\n".join(lines + ["</svg>", ""])


if __name__ == "__main__":
    picture = draw(includes())
    if "--check" in sys.argv[1:]:
        if not PICTURE.exists() or PICTURE.read_text() != picture:
            sys.exit(f"{PICTURE.name} is not that of the sources: run docs/modules.py")
    else:
        PICTURE.write_text(picture)
