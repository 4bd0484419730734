#!/usr/bin/env python3
"""Adds one new thing of each kind as docs/design.md, "Where new things go", says, and uses it.

usage: add_by_map.py ROOT BUILD

The new sources and the edited ones lie in a temporary folder that comes first on the include path. They are compiled as one file and linked before the
libraries of BUILD. An edit of a file that the row of the map does not name is an error, so the map and the code stay together.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LOSS = """#include <cdt/loss/loss.h>
namespace cdt::loss {
namespace {
class Quartic : public Loss {
 public:
  std::string name() const override { return "quartic"; }
  Traits traits() const override { return {}; }
  double scale(int64_t samples, int64_t outputs) const override {
    CDT_REQUIRE(samples > 0 && outputs > 0, "quartic: expected samples and outputs, got ", samples, " and ", outputs);
    return 1.0 / static_cast<double>(samples * outputs);
  }
  torch::Tensor values(const torch::Tensor& outputs, const torch::Tensor& targets) const override {
    return (outputs - targets).pow(4).sum(1);
  }
};
}  // namespace
LossPtr quartic() { return std::make_shared<Quartic>(); }
}  // namespace cdt::loss
"""
CONTROLLER = """#include <cdt/control/designs/designs.h>
namespace cdt::control {
Design twice_design() {
  return {"twice", "descent at twice the rate", [](const Plant& plant, const ControlProblem& problem) -> std::unique_ptr<Controller> {
            require_scalar_weights(problem, "twice");
            return std::make_unique<ModalController>(plant, descent(2));
          }};
}
}  // namespace cdt::control
"""
METHOD = """#include <cdt/train/method.h>
namespace cdt::train {
namespace {
class Signs : public StepMethod {
 public:
  explicit Signs(std::shared_ptr<const Setup> setup) : setup_(std::move(setup)) {}
  double learning_rate() const override { return 0.01; }
  Advance advance(int64_t, Pass& pass, StepRecord& row) override {
    const torch::NoGradGuard no_graph;
    row.learning_rate = learning_rate();
    const auto g = pass.gradients(setup_->loss->gradient(pass.values, pass.labels));
    for (size_t i = 0; i < g.size(); ++i) {
      torch::Tensor(setup_->model.parameters()[i]).sub_(g[i].sign(), learning_rate());
    }
    return {};
  }
  void save(SavedState&) const override {}
  void restore(const SavedState&) override {}
 private:
  std::shared_ptr<const Setup> setup_;
};
}  // namespace
MethodTraits signs_method() {
  return {.name = "signs", .summary = "signs of gradients", .gradients = true, .by_curvature = false,
          .make = [](auto setup) { return std::make_unique<Signs>(std::move(setup)); }};
}
}  // namespace cdt::train
"""
FORMAT = """
Format lines() {
  return {.name = "lines", .summary = "lines (.lines)",
          .matches = [](const std::string& file) { return file.ends_with(".lines"); },
          .read = [](const Source& source) { return read_csv(source.file, source.csv); }};
}
"""
MAIN = r"""
#include <cdt/data/read.h>
#include <cdt/study/settings.h>
#include <cdt/train/trainer.h>
#include <cstdio>
#include <cstdlib>
void need(bool met, const char* what) {
  if (!met) { std::printf("the map's %s does not work\n", what); std::exit(1); }
}
int main() {
  using namespace cdt;
  const auto loss = loss::parse("quartic");
  const auto y = torch::ones({5, 1}, torch::kFloat64);
  need(loss->values(y + 2, y)[0].item<double>() == 16, "loss");
  std::string text;
  try { loss->scale(0, 1); } catch (const InvalidArgument& error) { text = error.what(); }
  need(text.find("expected samples and outputs, got 0") != std::string::npos, "message");
  const auto theta = torch::diag(torch::tensor({1.0, 0.5}, torch::kFloat64));
  const auto plant = control::Plant::of_kernel(theta, 1e-12, {.rate = 0.1});
  const auto controller = control::design(plant, {}, "twice");
  need(controller->steer(torch::ones({2}, torch::kFloat64))[1].item<double>() == 2, "controller");
  need(data::format_of("x.lines").name == "lines" && data::in_words(data::formats()).find("(.lines)") != std::string::npos, "format");
  need(std::string(study::find_setting("by-map").help).find("of the map") != std::string::npos, "setting");
  torch::manual_seed(1);
  const auto w = torch::zeros({2, 1}).requires_grad_(), b = torch::zeros({1}).requires_grad_();
  train::TrainData samples;
  samples.x = torch::rand({20, 2});
  samples.y = samples.x.sum(1, true) + 1;
  train::TrainOptions options;
  options.method = "signs";
  options.loss = loss;
  options.steps = 100;
  const auto result = train::Trainer(kernel::Model([&](const torch::Tensor& x) { return x.mm(w) + b; }, {w, b}), samples, options).run();
  need(result.train_loss < 0.5 * result.history.at(0).train_loss, "training method");
  std::puts("one loss, controller, training method, data format, setting and message were added by the map");
}
"""


class Map:
    """The table of the map, and the tree as it is after the edits that its rows name."""

    def __init__(self, root, overlay):
        self.root, self.overlay, self.sources = root, overlay, []
        text = (root / "docs/design.md").read_text()
        text = text[text.index("## Where new things go"):text.index("## From symptom to file")]
        self.rows = {}
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if len(cells) == 4:
                self.rows[cells[0]] = " ".join(cells[1:3])

    def require(self, kind, file):
        row = next((cells for name, cells in self.rows.items() if name.startswith(kind)), None)
        if row is None:
            sys.exit(f"docs/design.md has no row for a new {kind}")
        named = re.findall(r"`([^`]+)`", row)
        if not any(re.fullmatch(re.escape(each).replace("NAME", r"\w+").replace(r"\{h,cpp\}", "(h|cpp)"), file) for each in named):
            sys.exit(f"docs/design.md, a new {kind}: {file} must be edited, and the row names {', '.join(named)}")

    def add(self, kind, file, text):
        self.require(kind, file)
        path = self.overlay / "cdt" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.sources.append(file)

    def edit(self, kind, file, before, after):
        """Puts `after` behind the first text that matches `before`."""
        self.require(kind, file)
        path = self.overlay / "cdt" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (path if path.exists() else self.root / "cdt" / file).read_text()
        found = re.search(before, text)
        if not found:
            sys.exit(f"{file} has no {before}: mend this test")
        path.write_text(text[:found.end()] + after + text[found.end():])
        if file.endswith(".cpp") and file not in self.sources:
            self.sources.append(file)


def main():
    root, build = (pathlib.Path(each).resolve() for each in sys.argv[1:3])
    commands = json.loads((build / "compile_commands.json").read_text())
    command = next(each["command"] for each in commands if "cdt_study.dir" in each["file"] and each["file"].endswith("cxx"))
    with tempfile.TemporaryDirectory() as folder:
        overlay = pathlib.Path(folder)
        tree = Map(root, overlay)
        tree.add("loss", "loss/quartic.cpp", LOSS)
        tree.edit("loss", "loss/loss.h", r"LossPtr poisson\(\);\n", "LossPtr quartic();\n")
        tree.edit("loss", "loss/table.cpp", r"std::vector<Entry> losses\(\) \{\n  return \{\n", '      {"quartic", "fourth powers", plain(quartic)},\n')
        tree.add("controller", "control/designs/twice.cpp", CONTROLLER)
        tree.edit("controller", "control/designs/designs.h", r"Design descent_design\(\);\n", "Design twice_design();\n")
        tree.edit("controller", "control/designs/table.cpp", r"designs\(\) \{\s+return \{", "twice_design(), ")
        tree.add("training method", "train/methods/signs.cpp", METHOD)
        tree.edit("training method", "train/method_table.cpp", r"namespace cdt::train \{\n", "MethodTraits signs_method();\n")
        tree.edit("training method", "train/method_table.cpp", r"rows\{\n", "      signs_method(),\n")
        tree.edit("data format", "data/read.cpp", r"namespace \{\n", FORMAT)
        tree.edit("data format", "data/read.cpp", r"Formats formats\(\) \{ return \{csv\(\), ", "lines(), ")
        tree.edit("setting", "study/settings_table.cpp", r'add\(Group::kTraining, \{\n', '    toggle("by-map", FIELD(tune)).says("a setting of the map"),\n')
        tree.require("message", "core/error.h")  # in the loss above
        whole = overlay / "all.cpp"
        whole.write_text("".join(f"#include <cdt/{file}>\n" for file in tree.sources) + MAIN)
        compiled = re.sub(r" -o \S+ -c \S+$", "", command.replace(" -I", f" -I{overlay} -I", 1))
        binary = overlay / "all"
        subprocess.run(f"{compiled} -o {binary}.o -c {whole}", shell=True, check=True, cwd=build)
        link = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "test_study"], check=True, capture_output=True, text=True).stdout.splitlines()[-1]
        link = re.sub(r"\S+\.cxx\.o\b", "", link).replace(" -o test_study", f" -Wl,--allow-multiple-definition {binary}.o -o {binary}")
        subprocess.run(re.sub(r"\S+libgtest_main\.\S+", "", link), shell=True, check=True, cwd=build)
        subprocess.run([str(binary)], check=True)


if __name__ == "__main__":
    main()
