#include <cdt/core/error.h>
#include <cdt/study/parts/weights.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

constexpr const char* kBalanced = "balanced";

/// The weight of each class: given, or such that all classes have the same total weight and the
/// mean row has weight 1.
std::vector<double> class_weights(const std::vector<std::string>& wanted,
                                  const std::vector<std::string>& classes, const Tensor& counts) {
  std::vector<double> weights(classes.size(), 1);
  if (wanted == std::vector<std::string>{kBalanced}) {
    const double rows = counts.sum().item<double>();
    const double present = counts.gt(0).sum().item<double>();
    for (size_t c = 0; c < classes.size(); ++c) {
      const double count = counts[static_cast<int64_t>(c)].item<double>();
      if (count > 0) weights[c] = rows / (present * count);
    }
    return weights;
  }
  for (const std::string& text : wanted) {
    const size_t equals = text.rfind('=');
    const std::string name = text.substr(0, std::min(equals, text.size()));
    const auto found = std::find(classes.begin(), classes.end(), name);
    const std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
    double weight = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
    const bool valid = error == std::errc() && end == number.data() + number.size() && weight > 0 &&
                       std::isfinite(weight);
    CDT_REQUIRE(found != classes.end() && valid, "class weights: expected ", kBalanced,
                " or NAME=WEIGHT with a class of the target and a weight above zero, got ",
                data::in_quotes(text));
    weights[static_cast<size_t>(found - classes.begin())] = weight;
  }
  return weights;
}

/// Multiplies sample weights by class weights.
void weigh_classes(const DataOptions& options, Problem& problem) {
  if (options.class_weights.empty()) return;
  CDT_REQUIRE(options.goal == Goal::kPredict && problem.preprocess.has_classes(),
              "class weights are for classes under the goal predict");
  train::TrainData& data = problem.data;
  const Tensor y = data.y.to(torch::kCPU);
  const Tensor y_val = data.y_val.defined() ? data.y_val.to(torch::kCPU) : y.narrow(0, 0, 0);
  const Tensor weights = torch::tensor(
      class_weights(options.class_weights, problem.preprocess.classes(), y.sum(0) + y_val.sum(0)),
      torch::kFloat64);
  const auto weigh = [&](Tensor& of_samples, const Tensor& labels) {
    const Tensor of_classes = labels.mv(weights);
    of_samples = of_samples.defined() ? of_samples * of_classes : of_classes;
  };
  weigh(data.sample_weights, y);
  if (data.y_val.defined()) weigh(data.val_weights, y_val);
}

}  // namespace

std::vector<double> read_weights(const data::Table& table, const std::string& name,
                                 const std::vector<int64_t>& rows, bool may_be_zero) {
  const data::Column& column = table.at(name);
  data::require_numeric(table, column, "the weights in column");
  std::vector<double> weights;
  for (const int64_t row : rows) {
    const double weight = column.numbers[static_cast<size_t>(row)];
    CDT_REQUIRE(weight > 0 || (may_be_zero && weight == 0), table.source, ", line ",
                table.lines[static_cast<size_t>(row)], ": expected a ",
                may_be_zero ? "weight of zero or above" : "positive weight", " in column ",
                data::in_quotes(name), ", got ",
                column.is_missing(row) ? "a missing value" : c10::str(weight));
    weights.push_back(weight);
  }
  return weights;
}

void weigh(const data::Table& table, const DataOptions& options, Problem& problem) {
  if (!options.sample_weights.empty()) {
    const auto of = [&](const std::vector<int64_t>& rows) {
      return torch::tensor(read_weights(table, options.sample_weights, rows), torch::kFloat64);
    };
    problem.data.sample_weights = of(problem.split.train);
    // With goal fit only training rows need weights.
    if (options.goal == Goal::kPredict && !problem.split.validation.empty()) {
      problem.data.val_weights = of(problem.split.validation);
    }
  }
  weigh_classes(options, problem);
  if (options.output_weights.empty()) return;
  const auto wanted = table.pictures ? static_cast<size_t>(problem.preprocess.output_count())
                                     : options.targets.size();
  CDT_REQUIRE(options.output_weights.size() == wanted, "output weights: expected one weight a ",
              table.pictures ? "class, " : "target, ", wanted, ", got ",
              options.output_weights.size());
  problem.data.output_weights = torch::tensor(options.output_weights, torch::kFloat64);
}

}  // namespace cdt::study
