#!/usr/bin/env python3
"""The league: the program's defaults beside scikit-learn on every table of a folder, same 70/30 splits for all.

usage: tables.py PROGRAM FOLDER [AmesHousing.csv] [--target FILE=COLUMN] [--seeds 5] [--tables A,B] [--json FILE]

FOLDER holds the CSV files. What is learned is known of some tables that everybody knows, else the last column unless
--target names another; text is a class, and so is what --target calls COLUMN:class. Files of more than 10 000 rows are
taken only where --tables names them. Ours is `cdt train --goal predict` on the training rows, then `cdt predict` on the test
rows. The program's Adam comes twice: `adam`, one network with the same encoding, a split and a refit
(`--adam-options`), and `adams`, with the folds and the averaging of ours too. Peers get one-hot categories, medians for
missing numbers, standardised features (and a standardised target for the network), and their default settings.
Numbers: squared error on test rows over the variance of their targets; of classes the error rate and the log loss.
Ratios are geometric means over tables of means over seeds, ours over theirs: below 1 we win; ± is one standard error,
by leaving out a split in turn. Needs scikit-learn and pandas.
"""
import argparse
import json
import math
import pathlib
import resource
import shlex
import subprocess
import tempfile
import time

import numpy
import pandas

# targets of tables that everybody knows, and columns that are left out
KNOWN = {
    "BostonHousing.csv": ("medv", []),
    "concrete.csv": ("compressive_strength", []),
    "car_prices.csv": ("Price", []),
    "biomass.csv": ("HHV", ["sample"]),
    "Sacramento.csv": ("price", []),
    "Ozone.csv": ("V4", []),
    "AmesHousing.csv": ("SalePrice", ["Order", "PID"]),
    "credit_data.csv": ("Status", []),
    "PimaIndiansDiabetes2.csv": ("diabetes", []),
    "diamonds.csv": ("price", []),
}
MOST_ROWS = 10_000  # of a table that is not named
PEERS = ["mlp", "boosting", "forest"]
ONE_ADAM = "--goal predict --method adam --ensemble 1"
FLOOR = 1e-6  # of probabilities in the log loss


class Table:
    """a CSV file, what is learned of it, and whether that is a class"""

    def __init__(self, path, targets):
        target, drop = KNOWN.get(path.name, (None, []))
        target = targets.get(path.name, target)
        self.rows = pandas.read_csv(path, encoding="utf-8-sig").drop(columns=drop)
        target = target or self.rows.columns[-1]
        self.target = target.removesuffix(":class")
        if self.target not in self.rows:
            raise SystemExit(f"{path} has no column {self.target}")
        self.rows = self.rows[self.rows[self.target].notna()].reset_index(drop=True)
        self.is_class = target.endswith(":class") or not pandas.api.types.is_numeric_dtype(self.rows[self.target])
        if self.is_class:
            self.rows[self.target] = self.rows[self.target].astype(str)


def find_tables(folder, ames, targets, names):
    """the tables of the folder by name, which is that of the file"""
    paths = sorted(pathlib.Path(folder).glob("*.csv")) + ([pathlib.Path(ames)] if ames else [])
    paths = {path.stem: path for path in paths}
    for name in names or []:
        if name not in paths:
            raise SystemExit(f"no table {name}; there are {', '.join(paths)}")
    for file in targets:
        if file.removesuffix(".csv") not in paths:
            raise SystemExit(f"--target {file}: no such file; there are {', '.join(paths)}")
    tables = {name: Table(paths[name], targets) for name in names or paths}
    large = [name for name, table in tables.items() if len(table.rows) > MOST_ROWS and not names]
    if large:
        print(f"left out, more than {MOST_ROWS} rows: {', '.join(large)} (--tables takes them)", flush=True)
    return {name: table for name, table in tables.items() if name not in large}


def split(table, seed):
    order = numpy.random.default_rng(seed).permutation(len(table))
    cut = round(0.7 * len(table))
    return table.iloc[numpy.sort(order[:cut])], table.iloc[numpy.sort(order[cut:])]


def score(truth, answer, classes=None):
    """answer: numbers, or probabilities of the classes, a column each"""
    if classes is None:
        truth = truth.to_numpy(float)
        return {"error": float(numpy.mean((answer - truth) ** 2) / numpy.var(truth))}
    index = truth.map({name: i for i, name in enumerate(classes)}).fillna(-1).to_numpy(int)  # -1: not seen in training
    own = numpy.where(index >= 0, answer[numpy.arange(len(index)), index], 0)
    return {"error": float(numpy.mean(answer.argmax(1) != index)),
            "log_loss": float(-numpy.log(numpy.clip(own, FLOOR, 1)).mean())}


def peer(learner, train, test, target, is_class, seed):
    from sklearn import compose, ensemble, impute, neural_network, pipeline, preprocessing

    x = train.drop(columns=target)
    numbers = [c for c in x if pandas.api.types.is_numeric_dtype(x[c])]
    texts = [c for c in x if c not in numbers]
    encode = compose.ColumnTransformer([
        ("numbers", pipeline.make_pipeline(impute.SimpleImputer(strategy="median"), preprocessing.StandardScaler()), numbers),
        ("texts", pipeline.make_pipeline(impute.SimpleImputer(strategy="constant", fill_value="missing"),
                                         preprocessing.OneHotEncoder(handle_unknown="ignore")), texts)],
        sparse_threshold=0)
    if is_class:
        model = {"mlp": lambda: neural_network.MLPClassifier(early_stopping=True, random_state=seed),
                 "boosting": lambda: ensemble.GradientBoostingClassifier(random_state=seed),
                 "forest": lambda: ensemble.RandomForestClassifier(random_state=seed)}[learner]()
    else:
        model = {"mlp": lambda: neural_network.MLPRegressor(early_stopping=True, random_state=seed),
                 "boosting": lambda: ensemble.GradientBoostingRegressor(random_state=seed),
                 "forest": lambda: ensemble.RandomForestRegressor(random_state=seed)}[learner]()
        if learner == "mlp":
            model = compose.TransformedTargetRegressor(model, transformer=preprocessing.StandardScaler())
    fitted = pipeline.make_pipeline(encode, model).fit(x, train[target])
    rows = test.drop(columns=target)
    if is_class:
        return score(test[target], fitted.predict_proba(rows), list(fitted.classes_))
    return score(test[target], fitted.predict(rows))


def processor_seconds():
    """of the programs that have ended"""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ours(program, options, train, test, target, is_class, seed):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        train.to_csv(path / "train.csv", index=False, na_rep="NA")
        test.drop(columns=target).to_csv(path / "test.csv", index=False, na_rep="NA")
        if is_class:
            options = [*options, "--loss", "cross-entropy"]
        start, before = time.perf_counter(), processor_seconds()
        subprocess.run([program, "train", path / "train.csv", "--target", target, "--out", path / "run",
                        "--seed", str(seed), "--json", "-", *options], check=True, stdout=subprocess.DEVNULL)
        seconds, cpu_seconds = time.perf_counter() - start, processor_seconds() - before
        interval = [] if is_class else ["--interval", "0.9"]
        predict = [program, "predict", path / "run", path / "test.csv", "--out", path / "p.csv", "--quiet"]
        if subprocess.run(predict + interval, stderr=subprocess.DEVNULL if interval else None).returncode:
            subprocess.run(predict, check=True)  # a run without intervals
        answer = pandas.read_csv(path / "p.csv")
    if is_class:
        classes = sorted(train[target].unique())
        result = score(test[target], answer[[f"P({target}={c})" for c in classes]].to_numpy(), classes)
    else:
        result = score(test[target], answer[target].to_numpy(float))
        if f"{target}_low" in answer:
            truth = test[target].to_numpy(float)
            result["coverage"] = float(numpy.mean((truth >= answer[f"{target}_low"]) & (truth <= answer[f"{target}_high"])))
    return {**result, "seconds": seconds, "cpu_seconds": cpu_seconds}


def mean(results, key):
    values = [r[key] for r in results if key in r]
    return sum(values) / len(values) if values else None


def log_ratio(ours, theirs, key):
    """log of ours over theirs, means over splits, and its standard error by leaving out a split in turn; NaN if unknown"""
    def of(some):
        above, below = mean([ours[i] for i in some], key), mean([theirs[i] for i in some], key)
        return math.log(above / below) if above > 0 and below > 0 else math.nan

    everything = range(len(ours))
    value, count = of(everything), len(ours)
    if count < 2:
        return value, math.nan
    left = [of([i for i in everything if i != out]) for out in everything]
    centre = sum(left) / count
    return value, math.sqrt((count - 1) / count * sum((x - centre) ** 2 for x in left))


def ratios(league, tables, key):
    """ours over each other learner: the geometric mean over tables, and over the best of the others the worst table"""
    nothing = [t for t in tables if any(mean(results, key) == 0 for results in league[t].values())]
    if nothing:
        print(f"not in the ratios of the {key}, where somebody has none: {', '.join(nothing)}")
    tables = [t for t in tables if t not in nothing]
    others = [o for o in league[tables[0]] if o != "cdt"] if tables else []
    if not others or "cdt" not in league[tables[0]]:
        return {}
    logs = {o: [log_ratio(league[t]["cdt"], league[t][o], key) for t in tables] for o in others}
    found = {}
    for other, values in logs.items():
        ratio = math.exp(sum(value for value, _ in values) / len(tables))
        found[other] = {"ratio": ratio, "error": ratio * math.hypot(*(error for _, error in values)) / len(tables)}
    worst = max((max(math.exp(values[i][0]) for values in logs.values()), tables[i]) for i in range(len(tables)))
    return {"over": found, "worst_of_best": worst[0], "worst_table": worst[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="path of cdt; - runs the peers only")
    parser.add_argument("folder", help="where the CSV files are")
    parser.add_argument("ames", nargs="?", help="AmesHousing.csv, if it is elsewhere")
    parser.add_argument("--target", action="append", default=[], metavar="FILE=COLUMN", help="what is learned of a file; COLUMN:class takes numbers for classes")
    parser.add_argument("--seeds", type=int, default=5, help="splits 0, 1, ...")
    parser.add_argument("--tables", help="names of files without .csv, with commas between (default: all)")
    parser.add_argument("--options", default="--goal predict", help="of cdt train")
    parser.add_argument("--adam-options", default=ONE_ADAM, help="of its single Adam network")
    parser.add_argument("--no-adam", action="store_true", help="leave out the program's Adam")
    parser.add_argument("--cache", help="JSON file that keeps the peers' results")
    parser.add_argument("--json", help="write everything to this file")
    arguments = parser.parse_args()

    cache_file = pathlib.Path(arguments.cache) if arguments.cache else None
    cache = json.loads(cache_file.read_text()) if cache_file and cache_file.exists() else {}
    for given in arguments.target:
        if "=" not in given:
            parser.error(f"--target wants FILE=COLUMN, not {given}")
    targets = dict(given.split("=", 1) for given in arguments.target)
    tables = find_tables(arguments.folder, arguments.ames, targets, arguments.tables and arguments.tables.split(","))
    league = {}
    for name, table in tables.items():
        target, is_class = table.target, table.is_class
        league[name] = {}
        for seed in range(arguments.seeds):
            train, test = split(table.rows, seed)
            run = {}
            if arguments.program != "-":
                options = shlex.split(arguments.options)
                learners = {"cdt": options}
                if not arguments.no_adam:
                    learners["adam"] = shlex.split(arguments.adam_options)
                    learners["adams"] = options + ["--method", "adam"]
                try:
                    for learner, chosen in learners.items():
                        run[learner] = ours(arguments.program, chosen, train, test, target, is_class, seed)
                except subprocess.CalledProcessError:
                    print(f"{name}: split {seed} left out, since the program refused its rows", flush=True)
                    continue
            for learner in PEERS:
                key = f"{name}/{seed}/{learner}"
                if key not in cache:
                    cache[key] = peer(learner, train, test, target, is_class, seed)
                    if cache_file:
                        cache_file.write_text(json.dumps(cache, indent=1))
                run[learner] = cache[key]
            for learner, result in run.items():
                league[name].setdefault(learner, []).append(result)
        if not league[name]:
            del league[name]
            continue
        shown = []
        for learner, results in league[name].items():
            loss, seconds, cpu, coverage = (mean(results, key) for key in ["log_loss", "seconds", "cpu_seconds", "coverage"])
            shown.append(f"{learner} {mean(results, 'error'):.4f}" + (f"/{loss:.4f}" if loss is not None else "")
                         + (f" ({seconds:.1f} s, {cpu:.1f} s of processors" + (f", {coverage:.0%} covered" if coverage is not None else "") + ")"
                            if seconds is not None else ""))
        print(f"{name} {target}, {len(table.rows)} rows  " + "  ".join(shown), flush=True)

    classes = [name for name in league if tables[name].is_class]
    numbers = [name for name in league if name not in classes]
    summary = {"numbers": ratios(league, numbers, "error"), "classes": ratios(league, classes, "error"),
               "classes_log_loss": ratios(league, classes, "log_loss")}
    for kind, values in summary.items():
        if values:
            print(f"ours over theirs, {kind}: " + "  ".join(f"{o} {v['ratio']:.3f} ± {v['error']:.3f}" for o, v in values["over"].items())
                  + f"; over the best of them at most {values['worst_of_best']:.3f} ({values['worst_table']})")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"seeds": arguments.seeds, "options": arguments.options,
                                                            "league": league, "ratios": summary}, indent=1))


if __name__ == "__main__":
    main()
