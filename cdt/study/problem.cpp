#include <cdt/core/error.h>
#include <cdt/core/text.h>
#include <cdt/data/conflicts.h>
#include <cdt/data/samples.h>
#include <cdt/study/problem.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

std::vector<ConflictingRows> conflicting_rows(const Tensor& x, const Tensor& y,
                                              const data::Table& table, const Problem& problem) {
  std::vector<ConflictingRows> conflicts;
  const auto& targets = problem.preprocess.targets;
  for (const data::Conflict& conflict :
       data::find_conflicts(x, problem.preprocess.to_original(y))) {
    const auto largest = std::max_element(conflict.gaps.begin(), conflict.gaps.end());
    ConflictingRows found;
    found.difference =
        problem.preprocess.has_classes()
            ? fmt::format("their {} differs; at best its frequencies are learned",
                          printable_name(targets[0].name))
            : fmt::format("their {} differs by up to {:.6g}; at best its mean is learned",
                          printable_name(
                              targets[static_cast<size_t>(largest - conflict.gaps.begin())].name),
                          *largest);
    for (const int64_t sample : conflict.rows) {
      const int64_t source = problem.split.train[static_cast<size_t>(sample)];
      found.lines.push_back(table.lines[static_cast<size_t>(source)]);
    }
    std::sort(found.lines.begin(), found.lines.end());
    conflicts.push_back(std::move(found));
  }
  std::sort(conflicts.begin(), conflicts.end(),
            [](const auto& a, const auto& b) { return a.lines < b.lines; });
  return conflicts;
}

std::vector<double> read_weights(const data::Table& table, const std::string& name,
                                 const std::vector<int64_t>& rows) {
  const data::Column& column = table.at(name);
  data::require_numeric(table, column, "the weights in column");
  std::vector<double> weights;
  for (const int64_t row : rows) {
    const double weight = column.numbers[static_cast<size_t>(row)];
    CDT_REQUIRE(weight > 0, table.source, ", line ", table.lines[static_cast<size_t>(row)],
                ": expected a positive weight in column ", data::in_quotes(name), ", but came ",
                column.is_missing(row) ? "a missing value" : c10::str(weight));
    weights.push_back(weight);
  }
  return weights;
}

data::Preprocess fit(const data::Table& table, const DataOptions& options,
                     const data::Split& split) {
  CDT_REQUIRE(!data::contains(options.targets, options.sample_weights),
              "sample weights: expected a column that is no target, but came ",
              data::in_quotes(options.sample_weights));
  CDT_REQUIRE(!options.classes || !options.target_scaling,
              "target-scale is for numbers; cross-entropy learns classes, which have no scale");
  CDT_REQUIRE(!options.classes || !options.target_transform,
              "target-transform is for numbers; cross-entropy learns classes");
  const data::PreprocessOptions wanted = preprocess_options(options);
  const Fit on = fit_of(options);
  if (on == Fit::kAll) return data::fit_preprocess(table, wanted, options.csv);
  std::vector<int64_t> rows = split.train;
  if (on == Fit::kSeen) {
    rows.insert(rows.end(), split.validation.begin(), split.validation.end());
  }
  std::vector<double> weights;
  if (options.goal == Goal::kPredict && !options.sample_weights.empty()) {
    weights = read_weights(table, options.sample_weights, rows);
  }
  return data::fit_preprocess(table, rows, wanted, options.csv, weights);
}

}  // namespace

Problem load_problem(const DataOptions& options, const NetworkOptions& network, uint64_t seed,
                     torch::Device device) {
  data::Table table = data::read_csv(options.file, options.csv);
  Problem problem = make_problem(table, options, network, seed, device);
  problem.table = std::move(table);
  return problem;
}

Problem make_problem(const data::Table& table, const DataOptions& options,
                     const NetworkOptions& network, uint64_t seed, torch::Device device) {
  Problem problem;
  const int64_t available = table.rows();
  CDT_REQUIRE(options.rows >= 0 && options.rows <= available, table.source, ": rows asks for ",
              options.rows, " rows, the file has ", available);
  const int64_t count = options.rows > 0 ? options.rows : available;
  const double fraction = train_fraction_of(options);
  const auto share = static_cast<int64_t>(std::floor(static_cast<double>(count) * fraction + 1e-9));
  const int64_t train = options.train_rows > 0 ? options.train_rows : share;
  CDT_REQUIRE(train >= 1, "a train fraction of ", fraction, " of ", count,
              " rows leaves none to train on");
  CDT_REQUIRE(train <= count, "train rows asks for ", train, " of ", count, " rows");
  problem.split = data::split_rows(available, count, train, seed);
  problem.preprocess = fit(table, options, problem.split);
  problem.notes = problem.preprocess.notes;

  nn::NetworkOptions layers = network;
  layers.input_shape = {problem.preprocess.feature_count()};
  layers.outputs = problem.preprocess.output_count();
  problem.model = nn::make_network(layers, seed, network.dtype);
  problem.model->to(device);

  const data::TableSamples samples(table, problem.preprocess);
  const auto [x, y] = samples.batch(problem.split.train);
  problem.conflicts = conflicting_rows(x, y, table, problem);
  problem.data.x = x.to(device, network.dtype);
  problem.data.y = y.to(device);
  if (!problem.split.validation.empty()) {
    const data::Batch validation = samples.batch(problem.split.validation);
    problem.data.x_val = validation.x.to(device, network.dtype);
    problem.data.y_val = validation.y.to(device);
  }
  if (!options.sample_weights.empty()) {
    problem.data.sample_weights = torch::tensor(
        read_weights(table, options.sample_weights, problem.split.train), torch::kFloat64);
  }
  if (!options.output_weights.empty()) {
    CDT_REQUIRE(options.output_weights.size() == options.targets.size(),
                "output weights: expected one weight a target, ", options.targets.size(),
                ", but came ", options.output_weights.size());
    problem.data.output_weights = torch::tensor(options.output_weights, torch::kFloat64);
  }
  return problem;
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
        printable_name(problem.preprocess.targets[0].name)));
  }
  return warnings;
}

int64_t usual_batch(const Problem& problem, train::Method method) {
  const Tensor& y = problem.data.y;
  if (!train::is_controlled(method) || y.numel() <= kLargestKernel) return 0;
  return std::max<int64_t>(1, kLargestKernel / 2 / y.size(1));
}

}  // namespace cdt::study
