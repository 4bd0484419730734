#!/usr/bin/env python3
"""The report pages of runs, of several runs and of a sweep, opened in a headless Chromium.

usage: page_test.py CDT_PROGRAM
"""
import contextlib
import csv
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from sample_pages import PAGES, make_pages, run, sweep_figures
from webdriver import Browser

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
FOLDER = None  # of the pages; main fills it

# The ratio of WCAG 2 between the colour of every piece of text and what lies behind it; the lowest, with its text.
CONTRAST = """
const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
  .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
let worst = {ratio: 99};
for (const details of document.querySelectorAll('details')) details.open = true;
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const text = walk.currentNode.textContent.trim();
  const node = walk.currentNode.parentElement;
  if (!text || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(node.tagName) || !node.offsetParent) continue;
  if (node.disabled) continue;
  let behind = node;
  while (behind && (parse(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
  const [a, b] = [getComputedStyle(node).color, getComputedStyle(behind || document.documentElement).backgroundColor]
    .map(parse).map(light).sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < worst.ratio) worst = {ratio, text: text.slice(0, 40)};
}
return worst;
"""

# Colours of the canvas that are not its background: per figure how many pixels have the colour of each curve.
MARKS = """
const view = cdtReport.views.get(arguments[0]);
const {canvas} = view;
const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
// A small point may be nothing but soft edges: half covered is enough, and rounding moves its colour by a little.
const count = (colour) => {
  const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  let sum = 0;
  for (let i = 0; i < pixels.length; i += 4) {
    if (pixels[i + 3] >= 100 && wanted.every((value, c) => Math.abs(pixels[i + c] - value) <= 3)) ++sum;
  }
  return sum;
};
const shows = (value, axis) => !view.logarithmic[axis] || value > 0;
return view.chart.data.datasets.filter((d) => !d.band).map((d) => ({
  name: d.name, style: d.style, points: d.source.y.filter((y, i) => y !== null && shows(y, d.yAxisID) && shows(d.source.x[i], 'x')).length,
  pixels: count(d.borderColor)}));
"""

# Where the tick labels of each axis begin and end, in pixels along it.
TICKS = """
const {chart} = cdtReport.views.get(arguments[0]);
const found = {};
for (const [name, scale] of Object.entries(chart.scales)) {
  const font = Chart.helpers.toFont(scale.options.ticks.font, Chart.defaults.font);
  chart.ctx.font = font.string;
  found[name] = scale.ticks.map(({label}, i) => {
    const half = (scale.isHorizontal() ? chart.ctx.measureText(label).width : font.size) / 2;
    const at = scale.getPixelForTick(i);
    return {label, from: at - half, to: at + half};
  }).filter(({label}) => label !== '');
}
return found;
"""

# The share of each logarithmic axis between the lowest and the highest value.
FILLED = """
const view = cdtReport.views.get(arguments[0]);
const found = {};
for (const [name, scale] of Object.entries(view.chart.scales)) {
  if (!view.logarithmic[name]) continue;
  const values = view.values(name).filter((value) => value > 0);
  const range = Math.log(Math.max(...values) / Math.min(...values));
  if (range > 0.05) found[name] = range / Math.log(scale.max / scale.min);
}
return found;
"""


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.downloads = FOLDER / "downloads"
        cls.browser = Browser(downloads=cls.downloads)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.resize(1100, 900)
        self.scheme("light")

    def resize(self, width, height):
        self.browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def scheme(self, value):
        self.browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def open(self, name, fragment=""):
        for kind in ("browser", "performance"):
            self.browser.log(kind)  # what came before
        self.browser.open("about:blank")
        self.browser.open((FOLDER / PAGES[name]).as_uri() + fragment)
        if not fragment:
            try:
                self.browser.wait_for("document.documentElement.dataset.ready")
            except AssertionError as error:
                raise AssertionError(f"{error}; console: {self.browser.log('browser')}") from None

    def figure_ids(self):
        return self.browser.run("return cdtReport.specs.map((spec) => spec.id)")

    @contextlib.contextmanager
    def page(self, name):
        with self.subTest(page=name):
            self.open(name)
            yield

    def place(self, figure, across, down=0.5):
        """A place in the plot of a figure, in shares of its width and height, as the window counts."""
        return self.browser.run("""
            const {canvas, chart} = cdtReport.views.get(arguments[0]);
            canvas.scrollIntoView({block: 'center'});
            const {left, top} = canvas.getBoundingClientRect();
            const area = chart.chartArea;
            return [left + area.left + arguments[1] * area.width, top + area.top + arguments[2] * area.height];
        """, figure, across, down)

    def test_no_console_message(self):
        for name in PAGES:
            with self.page(name):
                self.assertEqual(self.browser.log("browser"), [])

    def test_no_request_leaves_the_page(self):
        for name in PAGES:
            with self.page(name):
                own = (FOLDER / PAGES[name]).as_uri()
                requests = []
                for entry in self.browser.log("performance"):
                    message = json.loads(entry["message"])["message"]
                    if message["method"] == "Network.requestWillBeSent":
                        requests.append(message["params"]["request"]["url"])
                self.assertIn(own, requests)
                outside = [url for url in requests if url != own and not url.startswith(("data:", "blob:", "about:"))]
                self.assertEqual(outside, [])
                self.assertEqual(self.browser.run("return performance.getEntriesByType('resource').map((e) => e.name)"
                                                  ".filter((name) => !name.startsWith('data:'))"), [])

    def test_injected_scripts_do_not_run(self):
        self.open("run")
        self.browser.run("const node = document.createElement('div'); node.innerHTML = '<img src=\"data:,\" onerror=\"window.broken = 1\">';"
                         "document.body.append(node)")
        time.sleep(0.2)
        self.assertFalse(self.browser.run("return Boolean(window.broken)"))

    def test_every_figure_has_marks(self):
        figures = 0
        for name in PAGES:
            with self.page(name):
                for figure in self.figure_ids():
                    figures += 1
                    marks = self.browser.run(MARKS, figure)
                    self.assertTrue(any(series["points"] for series in marks), f"{name}, {figure} is empty")
                    for series in marks:
                        if series["points"]:
                            least = 1 if series["style"] == "points" else 8
                            self.assertGreaterEqual(series["pixels"], least, f"{name}, {figure}: {series}")
        self.assertGreaterEqual(figures, 12)

    def test_the_run_has_its_figures(self):
        self.open("run")
        for figure in ("losses", "control", "linearization-error", "events", "predictions-1", "spectrum"):
            self.assertIn(figure, self.figure_ids())

    def test_runs_that_predict_have_their_figures(self):
        for name, figures in (("predict", ["path", "predictions-1", "residuals-1"]), ("classes", ["path", "reliability-1"])):
            with self.page(name):
                self.assertEqual(self.figure_ids(), figures)

    def test_the_path_goes_to_the_right(self):
        self.open("predict")
        # As training goes: the decay falls, marks are as many as on an axis that goes forward, zooming works.
        large, small, left, right = self.browser.run("""
            const {x} = cdtReport.views.get('path').chart.scales;
            return [x.max, x.min, x.getPixelForValue(x.max), x.getPixelForValue(x.min)];
        """)
        self.assertGreater(large, small)
        self.assertLess(left, right)
        self.browser.pointer(("move", *self.place("path", 0.25)), "down", ("move", *self.place("path", 0.4)),
                             ("move", *self.place("path", 0.5)), "up")
        low, high = self.browser.run("const {min, max} = cdtReport.views.get('path').chart.scales.x; return [min, max]")
        self.assertAlmostEqual(math.log(high / low) / math.log(large / small), 0.25, delta=0.02)

    def test_tick_labels_keep_apart(self):
        for width in (1100, 390):
            self.resize(width, 800)
            for name in PAGES:
                with self.page(name):
                    for figure in self.figure_ids():
                        for axis, boxes in self.browser.run(TICKS, figure).items():
                            shown = sorted(boxes, key=lambda box: box["from"])
                            self.assertGreater(len(shown), 1 if width > 1000 else 0, f"{figure}, {axis}")
                            for one, next_one in zip(shown, shown[1:]):
                                self.assertLess(one["to"], next_one["from"], f"{figure}, {axis}, {width} px: {one} {next_one}")

    def test_logarithmic_axes_are_filled(self):
        for name in PAGES:
            with self.page(name):
                for figure in self.figure_ids():
                    for axis, share in self.browser.run(FILLED, figure).items():
                        self.assertGreater(share, 0.75, f"{figure}, {axis}")

    def test_hover_shows_a_value(self):
        for name in PAGES:
            with self.page(name):
                for figure in self.figure_ids():
                    self.browser.pointer(("move", 1, 1))
                    across, down = self.place(figure, 0.5)
                    if figure.startswith(("predictions", "residuals")) or figure == "mixed":  # clouds want to be met
                        across, down = self.browser.run("""
                            const {canvas, chart} = cdtReport.views.get(arguments[0]);
                            const at = chart.data.datasets.findIndex((d) => d.style === 'points');
                            const point = chart.getDatasetMeta(at).data[0];
                            const {left, top} = canvas.getBoundingClientRect();
                            return [left + point.x + 2, top + point.y + 2];
                        """, figure)
                    self.browser.pointer(("move", across - 5, down), ("move", across, down))
                    shown = self.browser.run("""
                        const {tooltip} = cdtReport.views.get(arguments[0]).chart;
                        return tooltip.opacity > 0 ? tooltip.body.flatMap((part) => part.lines) : [];
                    """, figure)
                    self.assertTrue(shown and all(any(c.isdigit() for c in line) for line in shown), f"{figure}: {shown}")

    def test_hover_tells_the_truth(self):
        self.open("sweep")
        self.browser.pointer(("move", *self.place("validation-0", 0.5)))
        step, lines = self.browser.run("""
            const {tooltip} = cdtReport.views.get('validation-0').chart;
            return [tooltip.dataPoints[0].raw.x, tooltip.body.flatMap((part) => part.lines)];
        """)
        self.assertEqual(len(lines), 11, "one of twelve has diverged before")
        expected = 0.002 + 0.03 * math.exp(-0.001 * step)
        line = next(line for line in lines if line.startswith("α = 0:"))
        self.assertIn(f"{expected:.4g}", line)
        self.assertIn(f"{0.8 * expected:.4g}", line)

    def test_legible_in_light_and_dark(self):
        for scheme in ("light", "dark"):
            self.scheme(scheme)
            for name in PAGES:
                with self.page(name):
                    self.assertEqual(self.browser.run("return document.documentElement.dataset.theme"), scheme)
                    worst = self.browser.run(CONTRAST)
                    self.assertGreaterEqual(worst["ratio"], 4.5, f"{scheme}: {worst}")
                    # Curves and the text on the canvas against the page.
                    ratios = self.browser.run("""
                        const light = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255)
                          .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
                          .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
                        const style = getComputedStyle(document.documentElement);
                        const page = light(style.getPropertyValue('--paper').trim());
                        const ratio = (colour) => (Math.max(light(colour), page) + 0.05) / (Math.min(light(colour), page) + 0.05);
                        const {chart} = cdtReport.views.values().next().value;
                        return {text: ratio(chart.options.scales.x.ticks.color), used: chart.data.datasets.map((d) => ratio(d.borderColor)),
                                all: style.getPropertyValue('--series').trim().split(' ').map(ratio)};
                    """)
                    self.assertGreaterEqual(ratios["text"], 4.5)
                    self.assertGreaterEqual(min(ratios["used"] + ratios["all"]), 3, ratios)

    def test_the_button_changes_the_theme_and_redraws(self):
        self.open("run")
        before = self.browser.run("return cdtReport.views.get('losses').chart.data.datasets[0].borderColor")
        self.browser.run("document.getElementById('theme').click()")
        self.assertEqual(self.browser.run("return document.documentElement.dataset.theme"), "dark")
        after = self.browser.run("return cdtReport.views.get('losses').chart.data.datasets[0].borderColor")
        self.assertNotEqual(before, after)

    def test_fits_a_phone(self):
        self.resize(390, 800)
        for name in PAGES:
            with self.page(name):
                self.browser.run("for (const details of document.querySelectorAll('details')) details.open = true")
                width, inner = self.browser.run("return [document.documentElement.scrollWidth, innerWidth]")
                self.assertEqual(inner, 390)
                self.assertLessEqual(width, 390)

    def test_zoom_by_dragging_and_back(self):
        self.open("sweep")
        limits = "const {min, max} = cdtReport.views.get('validation-0').chart.scales.x; return [min, max]"
        self.assertEqual(self.browser.run(limits), [0, 999])
        self.browser.pointer(("move", *self.place("validation-0", 0.25)), "down", ("move", *self.place("validation-0", 0.4)),
                             ("move", *self.place("validation-0", 0.5)), "up")
        low, high = self.browser.run(limits)
        self.assertAlmostEqual(low, 250, delta=5)
        self.assertAlmostEqual(high, 500, delta=5)
        at = self.place("validation-0", 0.5)
        self.browser.pointer(("move", *at), "down", "up", "down", "up")
        self.assertEqual(self.browser.run(limits), [0, 999])

    def test_log_and_linear(self):
        self.open("run")
        state = """
            const {chart, node} = cdtReport.views.get('losses');
            const button = [...node.querySelectorAll('.tools button')].find((each) => each.textContent === arguments[0]);
            if (arguments[1]) button.click();
            const {scales} = cdtReport.views.get('losses').chart;
            return [scales.x.type, scales.y.type, button.getAttribute('aria-pressed')];
        """
        self.assertEqual(self.browser.run(state, "log y", False), ["linear", "logarithmic", "true"])
        self.assertEqual(self.browser.run(state, "log y", True), ["linear", "linear", "false"])
        self.assertEqual(self.browser.run(state, "log x", True), ["logarithmic", "linear", "true"])
        for series in self.browser.run(MARKS, "losses"):
            self.assertGreater(series["pixels"], 8)

    def test_series_can_be_hidden(self):
        self.open("sweep")
        before = self.browser.run(MARKS, "validation-0")
        self.browser.run("cdtReport.views.get('validation-0').node.querySelectorAll('.legend button')[5].click()")
        pressed = self.browser.run("return [...cdtReport.views.get('validation-0').node.querySelectorAll('.legend button')]"
                                   ".map((each) => each.getAttribute('aria-pressed'))")
        self.assertEqual(pressed.count("false"), 1)
        self.assertGreater(before[5]["pixels"], 0)
        self.assertEqual(self.browser.run(MARKS, "validation-0")[5]["pixels"], 0)

    def download(self, figure):
        path = self.downloads / f"{figure}.csv"
        path.unlink(missing_ok=True)
        # A real click: a page may not start several downloads by itself.
        at = self.browser.run("""
            const button = cdtReport.views.get(arguments[0]).download_button;
            button.scrollIntoView({block: 'center'});
            const {left, top, width, height} = button.getBoundingClientRect();
            return [left + width / 2, top + height / 2];
        """, figure)
        self.browser.pointer(("move", *at), "down", "up")
        end = time.monotonic() + 20
        while not path.exists() or path.stat().st_size == 0:
            self.assertLess(time.monotonic(), end, f"no {path.name} came")
            time.sleep(0.05)
        return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))

    def test_download_has_the_data(self):
        self.open("sweep")
        rows = self.download("validation-0")
        curves = sweep_figures()["figures"][0]["series"]
        self.assertEqual(rows[0][:4], ["step", "α = 0", "α = 0, low", "α = 0, high"])
        self.assertEqual(len(rows), 1001)
        for k, row in enumerate(rows[1:]):
            self.assertEqual(row[0], str(k))
            for number, curve in enumerate(curves):
                for key, cell in zip(("y", "low", "high"), row[1 + 3 * number:4 + 3 * number]):
                    if curve[key][k] is None:
                        self.assertEqual(cell, "")
                    else:
                        self.assertAlmostEqual(float(cell) / curve[key][k], 1, delta=6e-4 if key != "y" else 6e-5)
        mixed = self.download("mixed")
        self.assertEqual(mixed[0], ["series", "rate", "count"])
        self.assertIn(['points, "quoted"', "0.002", "-1.5"], mixed)
        self.assertIn(["'\t'=right;'-x|-1", "0.1", "0.9"], mixed)

    def test_download_repeats_the_history(self):
        self.open("run")
        rows = self.download("losses")
        with open(FOLDER / "run/history.csv", encoding="utf-8") as file:
            history = list(csv.DictReader(file))
        self.assertEqual(rows[0], ["step", "training", "validation"])
        self.assertEqual(len(rows) - 1, len(history))
        for row, step in zip(rows[1:], history):
            self.assertAlmostEqual(float(row[1]) / float(step["train_loss"]), 1, delta=6e-6)

    def test_every_figure_has_a_table_and_a_name(self):
        for name in PAGES:
            with self.page(name):
                for figure in self.figure_ids():
                    rows, role, label, caption = self.browser.run("""
                        const node = document.getElementById(`figure-${arguments[0]}`);
                        const details = node.querySelector('details.data');
                        details.open = true;
                        details.dispatchEvent(new Event('toggle'));
                        const canvas = node.querySelector('canvas');
                        return [details.querySelectorAll('tbody tr').length, canvas.getAttribute('role'),
                                canvas.getAttribute('aria-label'), node.querySelector('figcaption') !== null];
                    """, figure)
                    self.assertGreater(rows, 0)
                    self.assertEqual(role, "img")
                    self.assertGreater(len(label), 20)
                    self.assertTrue(caption)

    def test_prints_light_and_whole(self):
        self.scheme("dark")
        self.open("sweep")
        self.browser.run("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(self.browser.run("return document.documentElement.dataset.theme"), "light")
        self.assertEqual(self.browser.run("return document.querySelectorAll('details.section:not([open])').length"), 0)
        self.browser.run("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(self.browser.run("return document.documentElement.dataset.theme"), "dark")

    def test_one_figure_alone(self):
        self.scheme("dark")
        self.open("sweep", "#figure=mixed")
        self.assertEqual(self.browser.run("return [...document.body.children].map((node) => node.id)"), ["figure-mixed"])
        self.assertEqual(self.browser.run("return document.documentElement.dataset.theme"), "light")


class PictureTest(unittest.TestCase):
    def test_png_writes_the_figures(self):
        (FOLDER / "pictures").mkdir()
        run(PROGRAM, FOLDER, "report", "gd", "--out", "pictures/page.html", "--png")
        pictures = sorted(path.name for path in (FOLDER / "pictures").glob("*.png"))
        self.assertEqual(pictures, ["losses.png", "predictions-1.png", "residuals-1.png"])
        for name in pictures:
            data = (FOLDER / "pictures" / name).read_bytes()
            self.assertTrue(data.startswith(b"\x89PNG"))
            self.assertGreater(len(data), 10000, "a blank picture is smaller")

    def test_png_without_a_browser_says_so(self):
        environment = {**os.environ, "PATH": str(FOLDER), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([PROGRAM, "report", "gd", "--png"], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Debian's package is chromium", done.stderr)


if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="cdt-report-") as folder:
        FOLDER = pathlib.Path(folder).resolve()
        (FOLDER / "downloads").mkdir()
        make_pages(PROGRAM, FOLDER)
        unittest.main(verbosity=2)
