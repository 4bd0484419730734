"""Pages as the program writes them: of a run, of several, of a sweep."""
import json
import math
import random
import subprocess

PAGES = {"run": "run/report.html", "gd": "gd/report.html", "predict": "predict/report.html", "classes": "classes/report.html",
         "both": "both.html", "sweep": "sweep/report.html"}


def run(program, folder, *arguments):
    done = subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"cdt {' '.join(map(str, arguments))}: {done.stderr}"


def sweep_figures():
    """As the paper's sweep has: bands, gaps where a run diverged, two axes, points and bars."""
    steps = list(range(1000))
    curves = []
    for number in range(12):
        y = [0.002 + 0.03 * math.exp(-0.001 * (number + 1) * k) for k in steps]
        if number == 3:
            y = [v if k < 60 else None for k, v in enumerate(y)]
        band = [(None, None) if v is None else (0.8 * v, 1.2 * v) for v in y]
        curves.append({"name": f"α = {number}", "style": "dashed" if number % 2 else "line", "x": steps, "y": y,
                       "low": [b[0] for b in band], "high": [b[1] for b in band]})
    label = {"label": "MSE", "logarithmic": True}
    figures = [{"id": f"validation-{i}", "title": f"Validation error <{i}>", "caption": "Mean and spread.",
                "x": {"label": "step"}, "y": label, "series": curves} for i in range(3)]
    figures.append({"id": "mixed", "title": "Points, bars and two axes", "caption": "", "x": {"label": "rate", "logarithmic": True},
                    "y": {"label": "count"}, "y2": {"label": "share"},
                    "series": [{"name": "bars", "style": "bars", "x": [0.001, 0.01, 0.1], "y": [1, 5, 2]},
                               {"name": "points, \"quoted\"", "style": "points", "x": [0.05, 0.002], "y": [3.25, -1.5]},
                               {"name": "\t=right;-x|-1", "style": "line", "x": [0.001, 0.1], "y": [0.1, 0.9], "second_axis": True}]})
    return {"format": "cdt-figures-1", "figures": figures}


def sweep_results():
    row = {"architecture": "79-250-1", "lr": 0.1, "method": "cdt", "reachable": True, "strictly_contracting": False,
           "converged": 10, "runs": 10, "val_mse_mean": 0.0023, "val_mse_std": 0.0011, "train_mse_mean": 0.001, "seconds": 1.5,
           "published": {"val_mse_mean": 0.0019, "val_mse_std": 0.0003}, "difference": 1.3}
    return {"format": "cdt-results-1", "version": "0.1.0", "revision": "", "kind": "reproduce", "title": "A sweep <&>",
            "complete": True, "summary": ["A paragraph."], "data": {"file": "homes.csv"},
            "settings": [{"name": "steps", "value": "1000", "source": "paper", "note": "why"}], "machine": {"device": "cpu"},
            "timings": {"wall_seconds": 1.0}, "rows": [row, {**row, "method": "gd", "val_mse_mean": None, "published": None}],
            "claims": [{"claim": "lower", "held": held, "evidence": "here"} for held in (True, False, None)],
            "preflight": [{"title": "one", "text": "STABLE\n" + 200 * "x"}]}


def kinds():
    """Rows of two kinds that overlap."""
    draw = random.Random(1)
    for _ in range(160):
        a, b = draw.gauss(0, 1), draw.gauss(0, 1)
        yield f"{a:.4f},{b:.4f},{'flat' if a + draw.gauss(0, 0.7) > 0 else 'house'}\n"


def make_pages(program, folder):
    """Writes PAGES below `folder`."""
    def cdt(*arguments):
        run(program, folder, *arguments)

    cdt("data", "make", "houses.csv", "--rows", 120, "--seed", 1)
    common = ["train", "houses.csv", "--target", "price", "--hidden", "32", "--threads", 1, "--quiet"]
    cdt(*common, "--steps", 30, "--out", "run", "--goal", "fit", "--linearization-error")
    cdt(*common, "--steps", 60, "--out", "gd", "--goal", "fit", "--method", "gd", "--no-analysis")
    learn = ["--goal", "predict", "--ensemble", 1, "--test-fraction", 0.2]
    cdt(*common, *learn, "--out", "predict")
    (folder / "kinds.csv").write_text("a,b,kind\n" + "".join(kinds()))
    cdt("train", "kinds.csv", "--target", "kind", "--loss", "cross-entropy", "--hidden", "16", "--threads", 1, "--quiet", *learn,
        "--out", "classes")
    cdt("report", "run", "gd", "--out", "both.html")
    sweep = folder / "sweep"
    sweep.mkdir()
    (sweep / "results.json").write_text(json.dumps(sweep_results()))
    (sweep / "figures.json").write_text(json.dumps(sweep_figures()))
    cdt("report", sweep)
