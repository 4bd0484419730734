#include "cli/run_folder.h"

#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/run/page_input.h>
#include <fmt/format.h>

#include <iostream>

#include "cli/classes.h"

namespace cdt::cli {

using torch::Tensor;
namespace fs = std::filesystem;

void RunFolder::create(bool overwrite) const {
  CDT_REQUIRE(!fs::exists(path_) || fs::is_directory(path_), path_.string(),
              ": expected a folder for the run, but it is a file");
  CDT_REQUIRE(overwrite || !fs::exists(run()), path_.string(),
              ": holds a run already; continue it with --resume, replace it with --overwrite, or "
              "choose another --out");
  std::error_code error;
  fs::create_directories(path_, error);
  CDT_REQUIRE(!error, "cannot create ", path_.string(), ": ", error.message());
}

void RunFolder::forget_results() const {
  for (const auto& file : {history(), model(), predictions(), spectrum(), checkpoint(), report()}) {
    std::error_code error;
    fs::remove(file, error);
    CDT_REQUIRE(!error, "cannot replace ", file.string(), ": ", error.message());
  }
}

void RunFolder::require_run() const {
  CDT_REQUIRE(fs::is_directory(path_), path_.string(), ": expected the folder of a run");
  for (const auto& file : {model(), preprocess()}) {
    CDT_REQUIRE(fs::exists(file), path_.string(), ": expected a finished run, but it has no ",
                file.filename().string());
  }
}

fs::path next_free_folder() {
  for (int number = 1;; ++number) {
    fs::path path = fmt::format("run{}", number);
    if (!fs::exists(path)) return path;
  }
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n ") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

nlohmann::ordered_json measure_errors(const data::Preprocess& preprocess, const Tensor& predictions,
                                      const Tensor& targets) {
  nlohmann::ordered_json errors;
  if (preprocess.has_classes()) {
    errors[preprocess.targets[0].name] = measure_classes(preprocess, predictions, targets);
    return errors;
  }
  for (size_t i = 0; i < preprocess.targets.size(); ++i) {
    const Tensor target = targets.select(1, static_cast<int64_t>(i));
    const Tensor gap = predictions.select(1, static_cast<int64_t>(i)) - target;
    const double spread = (target - target.mean()).square().mean().item<double>();
    const double square = gap.square().mean().item<double>();
    errors[preprocess.targets[i].name] = {
        {"rmse", std::sqrt(square)}, {"mae", gap.abs().mean().item<double>()}, {"r2", nullptr}};
    if (spread > 0) errors[preprocess.targets[i].name]["r2"] = 1 - square / spread;
  }
  return errors;
}

Tensor predict_targets(const nn::Network& model, const data::Preprocess& preprocess,
                       const Tensor& features, const std::string& source) {
  const torch::NoGradGuard no_graph;
  constexpr int64_t kRows = 1 << 16;  // at a time, so that a long file needs little memory
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < features.size(0); first += kRows) {
    const int64_t count = std::min(kRows, features.size(0) - first);
    const Tensor x = features.narrow(0, first, count).to(model->device(), model->dtype());
    const Tensor outputs = preprocess.to_original(model->forward(x).cpu());
    parts.push_back(preprocess.has_classes() ? torch::softmax(outputs, 1) : outputs);
  }
  Tensor predictions = torch::cat(parts);
  const Tensor broken = torch::isfinite(predictions).all(1).logical_not().nonzero();
  CDT_REQUIRE(
      broken.size(0) == 0, source, ", row ", broken[0][0].item<int64_t>() + 1,
      ": its prediction is not a finite number; a feature lies far outside the range of the "
      "training data");
  return predictions;
}

void write_predictions(const RunFolder& folder, const Problem& problem) {
  std::string csv = "row,split";
  for (const auto& target : problem.preprocess.targets) {
    csv += fmt::format(",{},{}", csv_field(target.name), csv_field(target.name + " predicted"));
  }
  const bool classes = problem.preprocess.has_classes();
  if (classes) csv += probability_columns(problem.preprocess);
  csv += "\n";
  const auto add = [&](const std::vector<int64_t>& rows, const char* split) {
    if (rows.empty()) return;
    const Tensor predictions =
        predict_targets(problem.model, problem.preprocess,
                        problem.preprocess.transform(problem.table, rows), problem.table.source);
    const Tensor targets =
        problem.preprocess.to_original(problem.preprocess.transform_targets(problem.table, rows));
    const auto predicted = predictions.accessor<double, 2>();
    const auto wanted = targets.accessor<double, 2>();
    std::vector<std::string> names, guesses;
    if (classes) {
      names = class_names(problem.preprocess, targets);
      guesses = class_names(problem.preprocess, predictions);
    }
    for (int64_t i = 0; i < predicted.size(0); ++i) {
      csv += fmt::format("{},{}", rows[static_cast<size_t>(i)] + 1, split);
      if (classes) {
        const auto at = static_cast<size_t>(i);
        csv += fmt::format(",{},{}{}\n", csv_field(names[at]), csv_field(guesses[at]),
                           value_cells(predictions, i));
        continue;
      }
      for (int64_t c = 0; c < predicted.size(1); ++c) {
        csv += fmt::format(",{},{}", wanted[i][c], predicted[i][c]);
      }
      csv += "\n";
    }
  };
  add(problem.split.train, "train");
  add(problem.split.validation, "validation");
  write_file_atomically(folder.predictions(), {csv});
}

void write_spectrum(const RunFolder& folder, const Findings& findings) {
  const auto& preflight = findings.preflight;
  const auto design = control::design_spectral(
      findings.spectrum,
      dynamics::step_scale(preflight.learning_rate, preflight.loss, findings.spectrum.size()),
      {preflight.q, preflight.rho, {}, {}});
  std::string csv = "mode,eigenvalue,step,gain,factor_gd,factor_cdt\n";
  const Tensor eigenvalues = findings.spectrum.values.cpu();
  const auto eigenvalue = eigenvalues.accessor<double, 1>();
  const Tensor columns =
      torch::stack({design.s, design.gains.gain, design.gains.closed_loop}).cpu();
  const auto value = columns.accessor<double, 2>();
  const int64_t n = columns.size(1);
  for (int64_t mode = 1; mode <= n; ++mode) {  // eigenvalues ascend; the fastest mode is the first
    const int64_t i = n - mode;
    csv += fmt::format("{},{},{},{},{},{}\n", mode, eigenvalue[i], value[0][i], value[1][i],
                       1 - value[0][i], value[2][i]);
  }
  write_file_atomically(folder.spectrum(), {csv});
}

void write_report(const RunFolder& folder) {
  try {
    write_file_atomically(folder.report(),
                          {report::to_html(report::run_page({run::read_record(folder.path())}))});
  } catch (const InvalidArgument& error) {
    std::cerr << "cdt: warning: the run has no report: " << error.what() << "\n";
  }
}

}  // namespace cdt::cli
