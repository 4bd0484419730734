#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/text/text.h>
#include <cdt/data/encode/identifiers.h>
#include <cdt/data/encode/targets.h>
#include <cdt/data/numpy/arrays.h>
#include <cdt/data/rows/conflicts.h>
#include <cdt/data/samples.h>
#include <cdt/study/parts/drawn_rows.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/weights.h>
#include <cdt/study/problem.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace cdt::study {
namespace {

using torch::Tensor;

/// "cat/7.jpg, dog/3.jpg"
std::string picture_names(const data::Table& table, const std::vector<int64_t>& lines) {
  const data::Column& column = table.at(kPictureColumn);
  std::vector<std::string> names;
  for (const int64_t line : lines) {
    const auto code = static_cast<size_t>(column.codes[static_cast<size_t>(line - 1)]);
    names.push_back(column.categories[code]);
  }
  return data::list_names(names);
}

/// With fewer rows two distinct numbers may be chance.
constexpr int64_t kFewestRowsOfClasses = 8;
/// Rows encoded at a time.
constexpr int64_t kBlock = int64_t{1} << 16;

/// Conflicts among training rows with equal hashes.
std::vector<data::Conflict> find_conflicts(const data::Samples& samples,
                                           const data::RowHashes& hashes, const Problem& problem) {
  std::vector<data::Conflict> conflicts;
  const auto& train = problem.split.train;
  for (const std::vector<int64_t>& part : hashes.suspects(kBlock)) {
    std::vector<int64_t> rows;
    for (const int64_t sample : part) rows.push_back(train[static_cast<size_t>(sample)]);
    const auto [x, y] = samples.batch(rows);
    for (data::Conflict& conflict : data::find_conflicts(x.flatten(1).to(torch::kFloat64),
                                                         problem.preprocess.to_original(y))) {
      for (int64_t& row : conflict.rows) row = part[static_cast<size_t>(row)];
      conflicts.push_back(std::move(conflict));
    }
  }
  return conflicts;
}

std::vector<ConflictingRows> conflicting_rows(const data::Samples& samples,
                                              const data::RowHashes& hashes,
                                              const data::Table& table, const Problem& problem) {
  std::vector<ConflictingRows> conflicts;
  const auto& targets = problem.preprocess.targets;
  for (const data::Conflict& conflict : find_conflicts(samples, hashes, problem)) {
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
    if (table.pictures) found.difference += ": " + picture_names(table, found.lines);
    conflicts.push_back(std::move(found));
  }
  std::sort(conflicts.begin(), conflicts.end(),
            [](const auto& a, const auto& b) { return a.lines < b.lines; });
  return conflicts;
}

/// Throws unless the loss is defined for the targets of these rows.
void require_least_targets(const data::Table& table, const data::Split& split,
                           const DataOptions& options) {
  if (!std::isfinite(options.least_target)) return;
  std::vector<int64_t> rows = split.train;
  rows.insert(rows.end(), split.validation.begin(), split.validation.end());
  rows.insert(rows.end(), split.test.begin(), split.test.end());
  std::sort(rows.begin(), rows.end());  // so that the first in the file is named
  for (const std::string& name : options.targets) {
    const std::vector<double> values = data::target_values(table, name, rows);
    for (size_t i = 0; i < values.size(); ++i) {
      CDT_REQUIRE(values[i] >= options.least_target, table.source, ":",
                  table.lines[static_cast<size_t>(rows[i])], ": expected the target ",
                  data::in_quotes(name), " to be ", options.least_target,
                  " or more, which the loss is defined for, got ", values[i]);
    }
  }
}

data::Preprocess fit(const data::Table& table, const DataOptions& options, const DrawnRows& drawn,
                     bool flat) {
  const auto& [train, validation, test] = drawn.split;
  const Fit on = fit_of(options);
  const bool whole = on == Fit::kAll && !table.pictures;  // other pictures are not decoded
  std::vector<int64_t> rows = whole ? drawn.rules.rows : train;
  if (on != Fit::kTrain && !whole) {
    rows.insert(rows.end(), validation.begin(), validation.end());
  }
  if (table.pictures) {
    if (on == Fit::kAll) rows.insert(rows.end(), test.begin(), test.end());
    return data::fit_pictures(table, rows, kClassColumn, /*squares=*/!options.classes,
                              preprocess_options(options).scaling, flat);
  }
  std::vector<double> weights;
  if (options.goal == Goal::kPredict && !options.sample_weights.empty()) {
    weights = read_weights(table, options.sample_weights, rows);
  }
  return data::fit_preprocess(table, rows, preprocess_options(options), options.csv, weights);
}

/// Notes what does not affect training, but later predictions.
void note_risks(const data::Table& table, const DataOptions& options, Problem& problem) {
  const bool refused =
      preprocess_options(options).unknown_category == data::UnknownCategory::kError;
  for (const data::FeatureColumn& feature : problem.preprocess.features) {
    const data::Column& column = table.at(feature.name);
    const std::string name = printable_name(feature.name);
    const std::string drop = fmt::format("--drop {} leaves it out", name);
    const std::string unknown = refused ? ", --unknown missing takes new ones for missing" : "";
    const char* fate = refused                 ? "refused"
                       : feature.other_feature ? "taken for rare"
                                               : "taken for missing";
    if (!feature.part && data::holds_dates(column)) {
      problem.notes.push_back(fmt::format(
          "{}: dates, taken as {} categories, and days that are not among them will be {} ({}{})",
          name, feature.categories.size(), fate, drop, unknown));
      continue;
    }
    const auto reason = data::identifier_reason(table, column);
    if (!reason) continue;
    problem.notes.push_back(
        fmt::format("{}: looks like an identifier: {}; nothing is learned from it that holds for "
                    "other rows ({}{})",
                    name, *reason, drop, column.type == data::ColumnType::kText ? unknown : ""));
  }
}

/// Options adapted to this table: those of pictures name no target.
DataOptions options_for(const data::Table& table, DataOptions options) {
  options.is_pictures = table.pictures != nullptr;
  if (!options.is_pictures) {
    const bool arrays = data::format_of(options.file).arrays;
    if (arrays && options.targets.empty()) options.targets = data::label_columns(table);
    CDT_REQUIRE(!options.targets.empty(), table.source, ": expected a target to learn",
                arrays ? ", got inputs without labels" : "");
    return options;
  }
  CDT_REQUIRE(options.goal != Goal::kPredict,
              "the goal predict is for tables; of pictures, training "
              "pictures are fitted, and others validate: --goal fit");
  options.targets = {kClassColumn};
  return options;
}

/// Encodes training rows, followed by validation rows in the same tensors: block by block, in the
/// network's dtype.
void encode_rows(const data::Samples& samples, const data::Table& table, torch::ScalarType dtype,
                 torch::Device device, Problem& problem) {
  const auto& [train, validation, test] = problem.split;
  const auto training = static_cast<int64_t>(train.size());
  const auto validating = static_cast<int64_t>(validation.size());
  std::vector<int64_t> shape{training + validating};
  for (const int64_t size : samples.feature_shape()) shape.push_back(size);
  const Tensor x = torch::empty(shape, torch::dtype(dtype).device(device));
  const Tensor y =
      torch::empty({shape[0], samples.label_count()}, torch::dtype(torch::kFloat64).device(device));
  const auto encode = [&](const std::vector<int64_t>& rows, int64_t to, data::RowHashes* hashes) {
    const auto count = static_cast<int64_t>(rows.size());
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t last = std::min(first + kBlock, count);
      const data::Batch block = samples.batch({rows.begin() + first, rows.begin() + last});
      if (hashes != nullptr) hashes->add(block.x);
      x.narrow(0, to + first, last - first).copy_(block.x);
      y.narrow(0, to + first, last - first).copy_(block.y);
    }
  };
  data::RowHashes hashes;
  encode(train, 0, &hashes);
  encode(validation, training, nullptr);
  problem.conflicts = conflicting_rows(samples, hashes, table, problem);
  problem.data.x = x.narrow(0, 0, training);
  problem.data.y = y.narrow(0, 0, training);
  if (validating == 0) return;
  problem.data.x_val = x.narrow(0, training, validating);
  problem.data.y_val = y.narrow(0, training, validating);
}

/// For pictures includes the pixels, which the checksum of a folder does not cover.
std::string checksum_of(const data::Table& table, const data::Split& split) {
  if (!table.pictures) return table.checksum;
  Checksum sum;
  sum.add(table.checksum);
  for (const auto* rows : {&split.train, &split.validation, &split.test}) {
    if (rows->empty()) continue;
    const Tensor x = table.pictures->load(*rows).contiguous();
    sum.add({static_cast<const char*>(x.data_ptr()), x.nbytes()});
  }
  return sum.text();
}

}  // namespace

Problem load_problem(const DataOptions& options, const NetworkOptions& network, uint64_t seed,
                     torch::Device device) {
  data::Table table = read_table(options);
  Problem problem = make_problem(table, options, network, seed, device);
  problem.table = std::move(table);
  return problem;
}

Problem make_problem(const data::Table& table, const DataOptions& options,
                     const NetworkOptions& network, uint64_t seed, torch::Device device) {
  std::vector<int64_t> all(static_cast<size_t>(table.rows()));
  std::iota(all.begin(), all.end(), int64_t{0});
  return make_problem(table, all, options, network, seed, device);
}

Problem make_problem(const data::Table& table, const std::vector<int64_t>& rows,
                     const DataOptions& given, const NetworkOptions& network, uint64_t seed,
                     torch::Device device) {
  const DataOptions options = options_for(table, given);
  const DrawnRows drawn = draw_rows(table, rows, options, seed);
  Problem problem;
  problem.split = drawn.split;
  problem.notes = drawn.notes;
  problem.skipped = drawn.skipped;
  problem.checksum = checksum_of(table, problem.split);
  problem.fixed_split = drawn.rules.by_time;
  if (!drawn.rules.by_time && !drawn.rules.blocks.empty()) {
    problem.groups = numbers_of(drawn.split, drawn.rules.blocks);
  }
  if (!drawn.first.empty()) problem.different = numbers_of(drawn.split, drawn.first);
  require_least_targets(table, problem.split, options);
  const bool flat = network.architecture == nn::NetworkOptions().architecture;
  problem.preprocess = fit(table, options, drawn, flat);
  if (!problem.skipped.empty()) {
    problem.notes.push_back(
        fmt::format("{} files left out, which are no pictures or damaged; the "
                    "first: {}",
                    problem.skipped.size(), problem.skipped[0].reason));
  }
  const auto& chosen = problem.preprocess.notes;
  problem.notes.insert(problem.notes.end(), chosen.begin(), chosen.end());
  if (options.goal != Goal::kPredict && !table.pictures) note_risks(table, options, problem);

  nn::NetworkOptions layers = network;
  layers.input_shape = problem.preprocess.feature_shape();
  layers.outputs = problem.preprocess.output_count();
  problem.model = nn::make_network(layers, seed, network.dtype);
  problem.model->to(device);

  const data::TableSamples samples(table, problem.preprocess);
  encode_rows(samples, table, network.dtype, device, problem);
  weigh(table, options, problem);
  return problem;
}

bool is_class(const data::Table& table, const std::vector<std::string>& targets) {
  if (targets.size() != 1) return false;
  const data::Column* column = table.find(targets[0]);
  if (column == nullptr) return false;
  if (column->type == data::ColumnType::kNumeric) {
    return table.rows() >= kFewestRowsOfClasses && data::has_two_values(*column);
  }
  // Neither are integers beyond 2⁵³, nor numbers with a few invalid cells.
  if (!column->understood.empty()) return false;
  return !column->not_numeric || column->not_numeric->numbers <= column->not_numeric->others;
}

std::string note_on_target(const data::Table& table, const std::vector<std::string>& targets,
                           bool classes) {
  constexpr size_t kFew = 10;
  const data::Column* column = targets.size() == 1 ? table.find(targets[0]) : nullptr;
  if (column == nullptr || column->type != data::ColumnType::kNumeric) return "";
  std::set<double> values;
  bool whole = true;
  for (const double value : column->numbers) {
    if (std::isnan(value)) continue;
    whole = whole && value == std::floor(value);
    values.insert(value);
    if (values.size() > kFew) return "";
  }
  const std::string name = printable_name(targets[0]);
  if (values.size() == 2) {
    return fmt::format("{} has two values, {} and {}: learned as {}", name, *values.begin(),
                       *values.rbegin(),
                       classes ? "classes (--loss mse learns the number)"
                               : "a number (--loss cross-entropy learns classes)");
  }
  const bool few =
      whole && values.size() > 2 && table.rows() >= static_cast<int64_t>(kFew * values.size());
  if (classes || !few) return "";
  return fmt::format(
      "{} has {} different whole numbers: learned as a number (--loss cross-entropy learns "
      "classes)",
      name, values.size());
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

}  // namespace cdt::study
