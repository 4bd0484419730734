#include "cdt/data/preprocess.h"

#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cdt/core/check.h"
#include "cdt/core/error.h"
#include "cdt/core/text/text.h"
#include "cdt/data/encode/encoding.h"
#include "cdt/data/encode/statistics.h"
#include "cdt/data/encode/targets.h"

namespace cdt::data {
namespace {

/// More knots than this give no more information.
constexpr int64_t kMostKnots = 1000;

std::vector<int64_t> all_rows(const Table& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

void require_rows(const Table& table, const std::vector<int64_t>& rows) {
  for (const int64_t row : rows) {
    CDT_REQUIRE(row >= 0 && row < table.rows(), table.source, ": expected rows from 0 to ",
                table.rows() - 1, ", got ", row);
  }
}

void require_names(const Table& table, const PreprocessOptions& options) {
  CDT_REQUIRE(!options.targets.empty(), table.source, ": expected one target or more, got none");
  for (const std::string& name : options.targets) {
    table.at(name);
    CDT_REQUIRE(std::count(options.targets.begin(), options.targets.end(), name) == 1,
                "expected different targets, got ", in_quotes(name), " twice");
    CDT_REQUIRE(!contains(options.drop, name), "expected ", in_quotes(name),
                " to be either a target or dropped, got both");
  }
  for (const std::string& name : options.drop) table.at(name);
  for (const std::string& name : options.keep) {
    table.at(name);
    CDT_REQUIRE(!contains(options.targets, name) && !contains(options.drop, name), "expected ",
                in_quotes(name), " to be a feature to keep, got ",
                contains(options.drop, name) ? "no feature" : "a target");
  }
  CDT_REQUIRE(!options.classes || options.targets.size() == 1, table.source,
              ": expected a single target to learn as classes, got ", list_names(options.targets));
}

void require_ranges(const PreprocessOptions& options) {
  CDT_REQUIRE(options.quantiles == 0 || (options.quantiles >= 3 && options.quantiles <= kMostKnots),
              "quantiles: expected 0, or 3 to ", kMostKnots, ", got ", options.quantiles);
  CDT_REQUIRE(options.quantile_weight >= 0 && std::isfinite(options.quantile_weight),
              "the weight of quantiles: expected 0 or above, got ", options.quantile_weight);
  CDT_REQUIRE(options.clip >= 0 && std::isfinite(options.clip), "clip: expected 0 or above, got ",
              options.clip);
  CDT_REQUIRE(options.max_levels >= 0 && options.rare_rows >= 0,
              "categories of their own: expected 0 or more of them, and of rows, got ",
              options.max_levels, " and ", options.rare_rows);
}

/// Ascending, since rounding of sums depends on the order; without rows of weight 0.
FitRows rows_to_fit(const Table& table, const std::vector<int64_t>& rows,
                    const std::vector<double>& weights) {
  CDT_REQUIRE(weights.empty() || weights.size() == rows.size(), "expected a weight for each of ",
              rows.size(), " rows, got ", weights.size());
  std::vector<std::pair<int64_t, double>> pairs;
  pairs.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const double weight = weights.empty() ? 1 : weights[i];
    CDT_REQUIRE(weight >= 0 && std::isfinite(weight),
                "expected weights that are finite and 0 or above, got ", weight);
    if (weight > 0) pairs.emplace_back(rows[i], weight);
  }
  CDT_REQUIRE(!pairs.empty(), table.source, ": expected rows to fit on, got none",
              rows.empty() ? "" : " with a weight above zero");
  std::sort(pairs.begin(), pairs.end());
  FitRows fit;
  for (const auto& [row, weight] : pairs) {
    fit.rows.push_back(row);
    fit.weights.push_back(weight);
  }
  return fit;
}

/// Whether to learn the target's logarithm; notes it if the user has not chosen it.
bool choose_log(const Table& table, const std::string& name, const std::vector<double>& values,
                const FitRows& fit, const PreprocessOptions& options, Preprocess& preprocess) {
  if (options.target_transform == TargetTransform::kNone) return false;
  const Column& column = table.at(name);
  // Over all rows, since those not fitted on will be evaluated, too.
  const bool positive = std::all_of(column.numbers.begin(), column.numbers.end(),
                                    [](double value) { return !(value <= 0); });
  if (options.target_transform == TargetTransform::kAuto) {
    if (!positive || !wants_log(values, fit.weights)) return false;
    preprocess.notes.push_back(fmt::format(
        "{}: above zero and skewed ({:.2g}), so its logarithm is learned (--target-transform none "
        "learns it as it is)",
        printable_name(name), skewness(values, fit.weights)));
    return true;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    CDT_REQUIRE(values[i] > 0, table.source, ":", table.lines[static_cast<size_t>(fit.rows[i])],
                ": expected the target ", in_quotes(name),
                " above zero, since its logarithm is to be learned, got ", values[i]);
  }
  return true;
}

TargetColumn fit_target(const Table& table, const std::string& name, const FitRows& fit,
                        const PreprocessOptions& options, Preprocess& preprocess) {
  std::vector<double> values = target_values(table, name, fit.rows);
  TargetColumn target;
  target.name = name;
  const bool constant = std::all_of(values.begin(), values.end(),
                                    [&](double value) { return value == values.front(); });
  CDT_REQUIRE(!constant || options.constant_target || options.target_scaling == Scaling::kNone,
              table.source, ": expected the target ", in_quotes(name), " to vary, got ",
              values.front(), " in all ", values.size(), " rows fitted on");
  const Column& column = table.at(name);
  target.format = column.format;
  if (!column.understood.empty()) {
    preprocess.notes.push_back(printable_name(name) + ": " + column.understood);
  }
  target.log = choose_log(table, name, values, fit, options, preprocess);
  if (target.log) {
    for (double& value : values) value = std::log(value);
  }
  target.scale = fit_scale(values, fit.weights, options.target_scaling, name);
  // Constant, or differences too small to square in float64.
  if (target.scale.scale == 0) target.scale.scale = 1;
  return target;
}

}  // namespace

bool wants_log(const std::vector<double>& values, const std::vector<double>& weights) {
  constexpr double kSkewed = 1;
  std::vector<double> logs;
  logs.reserve(values.size());
  for (const double value : values) {
    if (!(value > 0)) return false;
    logs.push_back(std::log(value));
  }
  const double skew = skewness(values, weights);
  return skew > kSkewed && std::abs(skewness(logs, weights)) < skew;
}

int64_t Preprocess::feature_count() const {
  if (pictures) return c10::multiply_integers(pictures->shape);
  size_t count = 0;
  for (const FeatureColumn& feature : features) count += width_of(feature, encoding);
  return static_cast<int64_t>(count);
}

std::vector<int64_t> Preprocess::feature_shape() const {
  if (pictures && !pictures->flat) return pictures->shape;
  return {feature_count()};
}

int64_t Preprocess::output_count() const {
  return static_cast<int64_t>(has_classes() ? classes().size() : targets.size());
}

std::vector<std::string> Preprocess::feature_names() const {
  std::vector<std::string> names;
  for (const FeatureColumn& feature : features) {
    for (std::string& name : names_of(feature, encoding)) names.push_back(std::move(name));
  }
  return names;
}

CsvOptions Preprocess::csv_options() const {
  CsvOptions options;
  options.delimiter = csv.delimiter;
  options.header = csv.header;
  options.missing_marks = csv.missing_marks;
  for (const FeatureColumn& feature : features) {
    options.types[feature.name] = feature.type;
    if (feature.format) options.formats[feature.name] = *feature.format;
    if (!contains(options.keep, feature.name)) options.keep.push_back(feature.name);
  }
  for (const TargetColumn& target : targets) {
    options.types[target.name] = target.type;
    if (target.format) options.formats[target.name] = *target.format;
    options.keep.push_back(target.name);
  }
  return options;
}

torch::Tensor Preprocess::transform(const Table& table, const std::vector<int64_t>& rows) const {
  require_rows(table, rows);
  if (pictures) return transform_pictures(*pictures, table, rows);
  const auto stride = static_cast<size_t>(feature_count());
  torch::Tensor out = torch::empty({static_cast<int64_t>(rows.size()), feature_count()},
                                   torch::TensorOptions().dtype(torch::kFloat64));
  auto* data = out.data_ptr<double>();
  size_t first = 0;
  for (const FeatureColumn& feature : features) {
    encode(*this, feature, table, rows, data + first, stride);
    first += feature.scales.size();
  }
  require_finite(out, table.source + ", scaled");
  return out;
}

torch::Tensor Preprocess::transform(const Table& table) const {
  return transform(table, all_rows(table));
}

std::vector<UnknownTexts> Preprocess::unknown_texts(const Table& table) const {
  std::vector<UnknownTexts> unknown;
  for (const FeatureColumn& feature : features) {
    // All parts of a date know the same texts.
    if (!unknown.empty() && unknown.back().column == feature.name) continue;
    UnknownTexts found = unknown_texts_of(feature, table);
    if (found.rows > 0) unknown.push_back(std::move(found));
  }
  return unknown;
}

std::vector<UnknownTexts> Preprocess::unknown_values(const Table& table) const {
  std::vector<UnknownTexts> unknown = unknown_texts(table);
  std::string last;
  for (const FeatureColumn& feature : features) {
    if (std::exchange(last, feature.name) == feature.name) continue;
    UnknownTexts found = newly_missing(feature, table);
    if (found.rows > 0) unknown.push_back(std::move(found));
  }
  return unknown;
}

std::vector<bool> Preprocess::unfamiliar(const Table& table,
                                         const std::vector<int64_t>& rows) const {
  std::vector<bool> found(rows.size());
  for (const FeatureColumn& feature : features) mark_unfamiliar(feature, table, rows, found);
  return found;
}

std::string to_text(const UnknownTexts& unknown) {
  const std::string rows = fmt::format("{} {}", unknown.rows, unknown.rows == 1 ? "row" : "rows");
  if (unknown.missing) {
    return fmt::format("{} without a value in column {}, which had one in each row of training; {}",
                       rows, in_quotes(unknown.column),
                       unknown.taken_for == "no category" ? "taken for no category"
                                                          : unknown.taken_for + " stands for it");
  }
  return fmt::format("{} of column {} with what training did not know, {} first; taken for {}",
                     rows, in_quotes(unknown.column), in_quotes(unknown.first), unknown.taken_for);
}

void refuse_unknown(const std::vector<UnknownTexts>& unknown, const std::string& source) {
  if (unknown.empty()) return;
  throw InvalidArgument(c10::str(source, ":", unknown[0].line, ": ", to_text(unknown[0]),
                                 unknown.size() > 1 ? "; further columns have such rows" : "",
                                 " (refused, as --unknown refuse says)"));
}

torch::Tensor Preprocess::targets_in_units(const Table& table,
                                           const std::vector<int64_t>& rows) const {
  require_rows(table, rows);
  if (has_classes()) {
    const torch::Tensor indices =
        torch::tensor(class_indices(table, targets[0], rows), torch::kInt64);
    return torch::one_hot(indices, output_count()).to(torch::kFloat64);
  }
  torch::Tensor out =
      torch::empty({static_cast<int64_t>(rows.size()), static_cast<int64_t>(targets.size())},
                   torch::TensorOptions().dtype(torch::kFloat64));
  auto* data = out.data_ptr<double>();
  for (size_t t = 0; t < targets.size(); ++t) {
    const std::vector<double> values = target_values(table, targets[t].name, rows);
    for (size_t i = 0; i < rows.size(); ++i) data[i * targets.size() + t] = values[i];
  }
  return out;
}

torch::Tensor Preprocess::transform_targets(const Table& table,
                                            const std::vector<int64_t>& rows) const {
  torch::Tensor out = targets_in_units(table, rows);
  if (has_classes()) return out;
  auto* value = out.data_ptr<double>();
  for (const int64_t row : rows) {
    for (const TargetColumn& target : targets) {
      CDT_REQUIRE(!target.log || *value > 0, table.source, ":",
                  table.lines[static_cast<size_t>(row)], ": expected the target ",
                  in_quotes(target.name), " above zero, since its logarithm is learned, got ",
                  *value);
      const double learned = target.log ? std::log(*value) : *value;
      *value++ = (learned - target.scale.offset) / target.scale.scale;
    }
  }
  require_finite(out, table.source + ", scaled targets");
  return out;
}

torch::Tensor Preprocess::transform_targets(const Table& table) const {
  return transform_targets(table, all_rows(table));
}

torch::Tensor Preprocess::to_original(const torch::Tensor& scaled) const {
  require_floating(scaled, "targets");
  require_shape(scaled, {-1, output_count()}, "targets");
  torch::Tensor out = scaled.detach().to(torch::kFloat64).clone();
  if (has_classes()) return out;
  for (size_t t = 0; t < targets.size(); ++t) {
    torch::Tensor column = out.select(1, static_cast<int64_t>(t));
    column.mul_(targets[t].scale.scale).add_(targets[t].scale.offset);
    if (targets[t].log) column.exp_();
  }
  return out;
}

Preprocess fit_preprocess(const Table& table, const std::vector<int64_t>& rows,
                          const PreprocessOptions& options, const CsvOptions& csv,
                          const std::vector<double>& weights) {
  require_names(table, options);
  require_ranges(options);
  require_rows(table, rows);
  const FitRows fit = rows_to_fit(table, rows, weights);

  Preprocess out;
  out.encoding = options.encoding;
  out.unknown_category = options.unknown_category;
  out.clip = options.clip;
  out.csv = csv;
  out.csv.delimiter = table.delimiter;
  if (options.classes) out.targets.push_back(fit_classes(table, options.targets[0], fit.rows));
  for (const std::string& name : options.targets) {
    if (!options.classes) out.targets.push_back(fit_target(table, name, fit, options, out));
  }
  for (const Column& column : table.columns) {
    if (contains(options.targets, column.name) || contains(options.drop, column.name)) continue;
    fit_column(table, column, fit, options, out);
  }
  CDT_REQUIRE(!out.features.empty(), table.source,
              ": expected columns besides targets and dropped ones, got none",
              out.notes.empty() ? "" : " that say something; " + out.notes.back());
  return out;
}

Preprocess fit_preprocess(const Table& table, const PreprocessOptions& options,
                          const CsvOptions& csv) {
  return fit_preprocess(table, all_rows(table), options, csv);
}

}  // namespace cdt::data
