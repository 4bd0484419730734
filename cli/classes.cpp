#include "cli/classes.h"

#include <cdt/dynamics/loss_linearization.h>
#include <fmt/format.h>

#include "cli/run_folder.h"

namespace cdt::cli {

using nlohmann::ordered_json;
using torch::Tensor;

ordered_json measure_classes(const data::Preprocess& preprocess, const Tensor& probabilities,
                             const Tensor& labels) {
  const int64_t C = preprocess.output_count();
  const Tensor wanted = labels.argmax(1);
  const Tensor predicted = probabilities.argmax(1);
  const Tensor confusion = torch::bincount(wanted * C + predicted, {}, C * C).view({C, C});
  ordered_json table = ordered_json::array();
  for (int64_t i = 0; i < C; ++i) {
    table.push_back(ordered_json::array());
    for (int64_t j = 0; j < C; ++j) table.back().push_back(confusion[i][j].item<int64_t>());
  }
  // As −log p, from the probability of the right class; zero only by rounding.
  const Tensor p = (probabilities * labels).sum(1).clamp_min(1e-300);
  return {{"accuracy", wanted.eq(predicted).to(torch::kFloat64).mean().item<double>()},
          {"cross_entropy", -p.log().mean().item<double>()},
          {"classes", preprocess.classes()},
          {"confusion", table}};
}

std::vector<std::string> class_names(const data::Preprocess& preprocess, const Tensor& scores) {
  std::vector<std::string> names;
  const Tensor best = scores.argmax(1);
  for (int64_t i = 0; i < best.size(0); ++i) {
    names.push_back(preprocess.classes()[static_cast<size_t>(best[i].item<int64_t>())]);
  }
  return names;
}

std::string probability_columns(const data::Preprocess& preprocess) {
  std::string columns;
  for (const std::string& name : preprocess.classes()) {
    columns += "," + csv_field(fmt::format("P({}={})", preprocess.targets[0].name, name));
  }
  return columns;
}

std::string value_cells(const Tensor& predictions, int64_t i) {
  std::string cells;
  const auto values = predictions.accessor<double, 2>();
  for (int64_t c = 0; c < values.size(1); ++c) cells += fmt::format(",{}", values[i][c]);
  return cells;
}

std::string summarize_classes(const ordered_json& errors) {
  constexpr size_t kMostShown = 10;
  std::string text;
  for (const auto& [name, train] : errors["train"].items()) {
    const ordered_json& other = errors["validation"];
    const bool validated = !other.is_null();
    const auto percent = [](const ordered_json& e) {
      return fmt::format("{:.2f} %", 100 * e["accuracy"].get<double>());
    };
    text += fmt::format("  {:24}{:>14}{:>14}\n", "accuracy of " + name, percent(train),
                        validated ? percent(other[name]) : "-");
    const ordered_json& shown = validated ? other[name] : train;
    const auto classes = shown["classes"].get<std::vector<std::string>>();
    if (classes.size() > kMostShown) continue;
    text += fmt::format("\n  {} rows, by class (down) and prediction (across):\n  {:16}",
                        validated ? "validation" : "training", "");
    const auto cell = [](const std::string& word) { return fmt::format("{:>10.9}", word); };
    for (const std::string& column : classes) text += cell(column);
    for (size_t i = 0; i < classes.size(); ++i) {
      text += fmt::format("\n  {:16.15}", classes[i]);
      for (const auto& count : shown["confusion"][i]) text += cell(count.dump());
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> classes_without_rows(const Problem& problem) {
  std::vector<std::string> warnings;
  if (!problem.preprocess.has_classes()) return warnings;
  const Tensor counts = problem.data.y.sum(0).cpu();
  for (int64_t c = 0; c < counts.size(0); ++c) {
    if (counts[c].item<double>() > 0) continue;
    warnings.push_back(fmt::format(
        "{}: no training row has the class {} of {}; it will hardly be predicted",
        problem.table.source, data::in_quotes(problem.preprocess.classes()[static_cast<size_t>(c)]),
        problem.preprocess.targets[0].name));
  }
  return warnings;
}

}  // namespace cdt::cli
