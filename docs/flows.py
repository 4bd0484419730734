#!/usr/bin/env python3
"""Draws docs/flow_training.svg and docs/flow_prediction.svg: what a run turns into what, from file to page, and where.

usage: docs/flows.py [--check]   (--check: fail if a picture is not that of this script, or a file that it names is gone)

Each stop reads what the stops before it made: a verb, the data that it gives, what these are, and the source that does it.
"""
import pathlib
import sys
from html import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAINING = [
    ("", "files", "a CSV file, arrays, a folder of pictures", ""),
    ("read", "Table", "columns, or pictures, with their checksum", "data/read.cpp"),
    ("decide", "Decision", "goal, loss, encoding, network: given or chosen, and why", "study/decision.cpp"),
    ("encode", "Problem", "x, y, split, network", "study/problem.cpp"),
    ("complete", "Decision", "solver, batch, members, threads", "study/decision.cpp"),
    ("linearize", "Linearization", "ŷ₀ + Jδ at the present parameters, with its kernel", "kernel/linearization.cpp"),
    ("pose", "Plant", "x⁺ = x − S(x − u), in the loss's coordinates", "control/plant.cpp"),
    ("design", "Controller", "what descent acts on instead of the error", "control/designs/table.cpp"),
    ("examine", "Preflight", "stability, reachability, margins; the Certificate", "analysis/preflight.cpp"),
    ("train", "TrainResult", "parameters, history, how it ended", "train/trainer.cpp"),
    ("pick", "Learned", "goal predict: walks, the point, members", "study/learn.cpp"),
    ("calibrate", "Predictor", "members, bounds, intervals", "study/predictor.cpp"),
    ("record", "Record", "all of run.json, with its tables", "study/record.cpp"),
    ("keep", "run folder", "run.json, model, history, predictions", "run/folder.cpp"),
    ("draw", "report.html", "one page: words, tables, figures", "report/run_page.cpp"),
]
PREDICTION = [
    ("", "run folder", "what training has kept", ""),
    ("load", "TrainedModel", "encoding, networks, calibration, intervals", "run/folder.cpp"),
    ("read", "Table", "new rows, a part of the file at a time", "data/read.cpp"),
    ("encode", "Samples", "features as training had them; what was unknown", "data/preprocess.cpp"),
    ("predict", "Predictions", "values, intervals, errors where targets are known", "study/predictions.cpp"),
    ("spell", "CSV lines, JSON", "a line a row", "cli/predict.cpp"),
]
FIGURES = {
    "flow_training.svg": ("A training run, from file to page", TRAINING),
    "flow_prediction.svg": ("A prediction, from run folder to lines", PREDICTION),
}
WIDTH, BOX, HEIGHT, GAP, LEFT = 760, 170, 30, 18, 96
STYLE = (
    ".box{fill:#e8f0fa;stroke:#33506e}.wire{stroke:#5b6b7f;fill:none}.head{fill:#5b6b7f}text{fill:#1c2b3a}"
    ".verb,.file{fill:#3d4d5e}.file{font-family:monospace;font-size:12px}.what{font-size:12.5px}"
    "@media(prefers-color-scheme:dark){.box{fill:#16283a;stroke:#6fb1e6}.wire{stroke:#9ab}.head{fill:#9ab}"
    "text{fill:#eee}.verb,.file{fill:#bcc8d4}}"
)


def path_of(file):
    """A path below cdt/, or below the root if that has it."""
    return next((p for p in (ROOT / "cdt" / file, ROOT / file) if p.exists()), None)


def draw(title, stops):
    tall = 2 * GAP + len(stops) * (HEIGHT + GAP) - GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" font-family="sans-serif" font-size="14" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
    middle = LEFT + BOX / 2
    for i, (verb, noun, what, file) in enumerate(stops):
        y = GAP + i * (HEIGHT + GAP)
        if i:
            lines.append(f'<path class="wire" d="M{middle:.0f} {y - GAP}V{y - 1}" marker-end="url(#tip)"/>')
            lines.append(f'<text class="verb" x="{LEFT - 12}" y="{y + 20}" text-anchor="end">{verb}</text>')
        lines.append(f'<rect class="box" x="{LEFT}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="5"/>')
        lines.append(f'<text x="{middle:.0f}" y="{y + 20}" text-anchor="middle" font-weight="bold">{escape(noun)}</text>')
        lines.append(f'<text class="what" x="{LEFT + BOX + 12}" y="{y + (13 if file else 20)}">{escape(what)}</text>')
        lines.append(f'<text class="file" x="{LEFT + BOX + 12}" y="{y + 28}">{file}</text>' if file else "")
    return "\n".join([line for line in lines if line] + ["</svg>", ""])


if __name__ == "__main__":
    gone = [file for _, stops in FIGURES.values() for *_, file in stops if file and not path_of(file)]
    if gone:
        sys.exit(f"docs/flows.py names files that are not there: {', '.join(gone)}")
    for name, (title, stops) in FIGURES.items():
        picture, target = draw(title, stops), ROOT / "docs" / name
        if "--check" not in sys.argv[1:]:
            target.write_text(picture)
        elif not target.exists() or target.read_text() != picture:
            sys.exit(f"docs/{name} is not that of docs/flows.py: run it")
