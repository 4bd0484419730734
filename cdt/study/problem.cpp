#include <cdt/core/checksum.h>
#include <cdt/core/error.h>
#include <cdt/core/text.h>
#include <cdt/data/arrays.h>
#include <cdt/data/blocks.h>
#include <cdt/data/conflicts.h>
#include <cdt/data/identifiers.h>
#include <cdt/data/samples.h>
#include <cdt/study/pictures.h>
#include <cdt/study/problem.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

namespace cdt::study {
namespace {

using torch::Tensor;

constexpr const char* kBalanced = "balanced";

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

/// Rows that are encoded at a time.
constexpr int64_t kBlock = int64_t{1} << 16;

/// Of training rows by these hashes.
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

/// Above zero, or with `may_be_zero` not below it.
std::vector<double> read_weights(const data::Table& table, const std::string& name,
                                 const std::vector<int64_t>& rows, bool may_be_zero = false) {
  const data::Column& column = table.at(name);
  data::require_numeric(table, column, "the weights in column");
  std::vector<double> weights;
  for (const int64_t row : rows) {
    const double weight = column.numbers[static_cast<size_t>(row)];
    CDT_REQUIRE(weight > 0 || (may_be_zero && weight == 0), table.source, ", line ",
                table.lines[static_cast<size_t>(row)], ": expected a ",
                may_be_zero ? "weight of zero or above" : "positive weight", " in column ",
                data::in_quotes(name), ", but came ",
                column.is_missing(row) ? "a missing value" : c10::str(weight));
    weights.push_back(weight);
  }
  return weights;
}

void require_roles(const DataOptions& options) {
  for (const auto& [what, column] : {std::pair{"sample weights", &options.sample_weights},
                                     {"group", &options.group},
                                     {"time", &options.time}}) {
    CDT_REQUIRE(!data::contains(options.targets, *column), what,
                ": expected a column that is no target, but came ", data::in_quotes(*column));
  }
  CDT_REQUIRE(options.group.empty() || options.time.empty(),
              "expected a split by group or by time, but came both");
  CDT_REQUIRE(!options.classes || !options.target_scaling,
              "target-scale is for numbers; cross-entropy learns classes, which have no scale");
  CDT_REQUIRE(!options.classes || !options.target_transform,
              "target-transform is for numbers; cross-entropy learns classes");
  CDT_REQUIRE(options.test_fraction >= 0 && options.test_fraction < 1,
              "test fraction: expected 0 or above, and below 1, but came ", options.test_fraction);
}

/// Those of `among` that may be learned from, and in words why not the others.
std::vector<int64_t> usable_rows(const data::Table& table, const std::vector<int64_t>& among,
                                 const DataOptions& options, std::vector<std::string>& notes) {
  std::vector<int64_t> rows;
  int64_t without_target = 0, without_weight = 0;
  const bool drop = missing_target_of(options) == MissingTarget::kDrop;
  for (const int64_t row : among) {
    const bool missing =
        drop && std::any_of(options.targets.begin(), options.targets.end(),
                            [&](const auto& name) { return table.at(name).is_missing(row); });
    if (missing) {
      ++without_target;
    } else {
      rows.push_back(row);
    }
  }
  const auto note = [&](int64_t count, const std::string& what, const std::string& advice) {
    if (count == 0) return;
    notes.push_back(fmt::format("{} {} {} left out{}", count, count == 1 ? "row" : "rows",
                                what + (count == 1 ? " is" : " are"), advice));
  };
  note(without_target, "without a target", " (--missing-target error refuses them)");
  if (options.goal != Goal::kPredict || options.sample_weights.empty()) return rows;
  const std::vector<double> weights = read_weights(table, options.sample_weights, rows, true);
  std::vector<int64_t> weighed;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (weights[i] > 0) {
      weighed.push_back(rows[i]);
    } else {
      ++without_weight;
    }
  }
  note(without_weight, "of weight 0", "");
  return weighed;
}

/// A share of rows, rounded down.
int64_t share_of(int64_t count, double fraction) {
  return static_cast<int64_t>(std::floor(static_cast<double>(count) * fraction + 1e-9));
}

data::SplitRules split_rules(const data::Table& table, const std::vector<int64_t>& among,
                             const DataOptions& options, std::vector<std::string>& notes) {
  data::SplitRules rules;
  rules.rows = usable_rows(table, among, options, notes);
  const auto available = static_cast<int64_t>(rules.rows.size());
  const bool all = available == table.rows();
  CDT_REQUIRE(available > 0, table.source, ": expected rows to learn from, but there are none; ",
              notes.empty() ? "" : notes.back());
  CDT_REQUIRE(options.rows >= 0 && options.rows <= available, table.source, ": rows asks for ",
              options.rows, " rows, the file has ", available, all ? "" : " that can be used");
  rules.count = options.rows > 0 ? options.rows : available;
  if (options.test_fraction > 0) {
    rules.test = std::max<int64_t>(1, share_of(rules.count, options.test_fraction));
  }
  const int64_t left = rules.count - rules.test;
  const double fraction = train_fraction_of(options);
  rules.train = options.train_rows > 0 ? options.train_rows : share_of(left, fraction);
  CDT_REQUIRE(rules.train >= 1, "a train fraction of ", fraction, " of ", left,
              " rows leaves none to train on");
  CDT_REQUIRE(rules.train <= left, "train rows asks for ", rules.train, " of ", left, " rows");
  if (!options.group.empty()) {
    rules.blocks = data::group_numbers(table, options.group);
    if (!data::contains(options.keep, options.group)) {
      const std::string name = printable_name(options.group);
      notes.push_back(fmt::format(
          "{}: left out, it says which rows belong together (--keep {} takes it)", name, name));
    }
  }
  if (!options.time.empty()) {
    rules.blocks = data::time_numbers(table, options.time, rules.rows);
    rules.by_time = true;
  }
  return rules;
}

data::Preprocess fit(const data::Table& table, const DataOptions& options,
                     const data::SplitRules& rules, const data::Split& split, bool flat) {
  const Fit on = fit_of(options);
  const bool whole = on == Fit::kAll && !table.pictures;  // others are not decoded
  std::vector<int64_t> rows = whole ? rules.rows : split.train;
  if (on != Fit::kTrain && !whole) {
    rows.insert(rows.end(), split.validation.begin(), split.validation.end());
  }
  if (table.pictures) {
    if (on == Fit::kAll) rows.insert(rows.end(), split.test.begin(), split.test.end());
    return data::fit_pictures(table, rows, kClassColumn, /*squares=*/!options.classes,
                              preprocess_options(options).scaling, flat);
  }
  std::vector<double> weights;
  if (options.goal == Goal::kPredict && !options.sample_weights.empty()) {
    weights = read_weights(table, options.sample_weights, rows);
  }
  return data::fit_preprocess(table, rows, preprocess_options(options), options.csv, weights);
}

/// The weight of each class: those that were given, or such that all classes together weigh the
/// same and the mean row 1.
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
                " or NAME=WEIGHT with a class of the target and a weight above zero, but came ",
                data::in_quotes(text));
    weights[static_cast<size_t>(found - classes.begin())] = weight;
  }
  return weights;
}

/// Multiplies the weights of samples by those of their classes.
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

/// What training will not mind, and whoever predicts later will.
void note_risks(const data::Table& table, const DataOptions& options, Problem& problem) {
  const bool refused =
      preprocess_options(options).unknown_category == data::UnknownCategory::kError;
  for (const data::FeatureColumn& feature : problem.preprocess.features) {
    const data::Column& column = table.at(feature.name);
    const std::string name = printable_name(feature.name);
    const std::string drop = fmt::format("--drop {} leaves it out", name);
    const std::string unknown = refused ? ", --unknown missing takes new ones for missing" : "";
    if (!feature.part && data::holds_dates(column)) {
      problem.notes.push_back(fmt::format(
          "{}: dates, taken as {} categories, and days that are not among them will be {} ({}{})",
          name, feature.categories.size(), refused ? "refused" : "taken for missing", drop,
          unknown));
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

/// The groups of rows that train, then of those that validate, numbered from 0.
std::vector<int64_t> number_groups(const data::SplitRules& rules, const data::Split& split) {
  std::map<int64_t, int64_t> numbers;
  std::vector<int64_t> groups;
  for (const auto* rows : {&split.train, &split.validation}) {
    for (const int64_t row : *rows) {
      const int64_t block = rules.blocks[static_cast<size_t>(row)];
      groups.push_back(numbers.emplace(block, static_cast<int64_t>(numbers.size())).first->second);
    }
  }
  return groups;
}

/// The options as they hold for this table: those of pictures name no target.
DataOptions options_for(const data::Table& table, DataOptions options) {
  options.is_pictures = table.pictures != nullptr;
  if (!options.is_pictures) {
    const bool arrays = !options.labels.empty() || data::holds_arrays(options.file);
    if (arrays && options.targets.empty()) options.targets = data::label_columns(table);
    CDT_REQUIRE(!options.targets.empty(), table.source, ": expected a target to learn",
                arrays ? ", but came inputs without labels" : "");
    return options;
  }
  CDT_REQUIRE(options.goal == Goal::kFit,
              "the goal predict is for tables; of pictures, training "
              "pictures are fitted, and others validate: --goal fit");
  options.targets = {kClassColumn};
  return options;
}

/// Draws again, without those that cannot be read, until all can be; unless such are refused.
data::Split draw_rows(const data::Table& table, std::vector<int64_t> among,
                      const DataOptions& options, uint64_t seed, data::SplitRules& rules,
                      Problem& problem) {
  for (;;) {
    problem.notes.clear();
    rules = split_rules(table, among, options, problem.notes);
    data::Split split = data::split_rows(rules, seed);
    if (!table.pictures || !options.pictures.skip_bad) return split;
    std::vector<int64_t> drawn = split.train;
    drawn.insert(drawn.end(), split.validation.begin(), split.validation.end());
    drawn.insert(drawn.end(), split.test.begin(), split.test.end());
    const auto bad = table.pictures->unreadable(drawn);
    if (bad.empty()) return split;
    problem.skipped.insert(problem.skipped.end(), bad.begin(), bad.end());
    for (const auto& each : bad) std::erase(among, each.row);
    CDT_REQUIRE(!among.empty(), table.source, ": none of ", problem.skipped.size(),
                " files is a picture; the first: ", bad.front().reason);
  }
}

/// Rows that train and, behind them in the same tensors, rows that validate: encoded a block at a
/// time, in the network's dtype.
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

/// Of pictures the pixels count, which the checksum of a folder does not know.
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
  require_roles(options);
  Problem problem;
  data::SplitRules rules;
  problem.split = draw_rows(table, rows, options, seed, rules, problem);
  problem.checksum = checksum_of(table, problem.split);
  problem.fixed_split = rules.by_time;
  if (!rules.by_time && !rules.blocks.empty()) problem.groups = number_groups(rules, problem.split);
  const bool flat = network.architecture == nn::NetworkOptions().architecture;
  problem.preprocess = fit(table, options, rules, problem.split, flat);
  if (!problem.skipped.empty()) {
    problem.notes.push_back(
        fmt::format("{} files left out, which are no pictures or damaged; the "
                    "first: {}",
                    problem.skipped.size(), problem.skipped[0].reason));
  }
  const auto& chosen = problem.preprocess.notes;
  problem.notes.insert(problem.notes.end(), chosen.begin(), chosen.end());
  if (options.goal == Goal::kFit && !table.pictures) note_risks(table, options, problem);

  nn::NetworkOptions layers = network;
  layers.input_shape = problem.preprocess.feature_shape();
  layers.outputs = problem.preprocess.output_count();
  problem.model = nn::make_network(layers, seed, network.dtype);
  problem.model->to(device);

  const data::TableSamples samples(table, problem.preprocess);
  encode_rows(samples, table, network.dtype, device, problem);
  if (!options.sample_weights.empty()) {
    problem.data.sample_weights = torch::tensor(
        read_weights(table, options.sample_weights, problem.split.train), torch::kFloat64);
    // Under fit only rows that train need a weight.
    if (options.goal == Goal::kPredict && !problem.split.validation.empty()) {
      problem.data.val_weights = torch::tensor(
          read_weights(table, options.sample_weights, problem.split.validation), torch::kFloat64);
    }
  }
  weigh_classes(options, problem);
  if (!options.output_weights.empty()) {
    const auto wanted = table.pictures ? static_cast<size_t>(problem.preprocess.output_count())
                                       : options.targets.size();
    CDT_REQUIRE(options.output_weights.size() == wanted, "output weights: expected one weight a ",
                table.pictures ? "class, " : "target, ", wanted, ", but came ",
                options.output_weights.size());
    problem.data.output_weights = torch::tensor(options.output_weights, torch::kFloat64);
  }
  return problem;
}

bool is_class(const data::Table& table, const std::vector<std::string>& targets) {
  if (targets.size() != 1) return false;
  const data::Column* column = table.find(targets[0]);
  if (column == nullptr || column->type != data::ColumnType::kText) return false;
  // Numbers with a slip among them are no classes.
  return !column->not_numeric || column->not_numeric->numbers <= column->not_numeric->others;
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
