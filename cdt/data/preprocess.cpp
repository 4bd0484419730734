#include "cdt/data/preprocess.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cdt/core/check.h"
#include "cdt/core/error.h"
#include "cdt/data/targets.h"

namespace cdt::data {
namespace {

/// Of one column: beyond this it is an identifier, and the features would not fit in memory.
constexpr size_t kMostOneHot = 10000;

std::vector<int64_t> all_rows(const Table& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

void require_rows(const Table& table, const std::vector<int64_t>& rows) {
  for (const int64_t row : rows) {
    CDT_REQUIRE(row >= 0 && row < table.rows(), table.source, ": expected rows from 0 to ",
                table.rows() - 1, ", but came ", row);
  }
}

struct Moments {
  double min, max, mean, deviation;
};

Moments moments(const std::vector<double>& values) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  // From the smallest, so that a constant has exactly itself as mean and no deviation.
  double sum = 0;
  for (const double value : values) sum += value - *min;
  const double mean = *min + sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {*min, *max, mean, std::sqrt(squares / count)};
}

Scale fit_scale(const std::vector<double>& values, Scaling scaling, const std::string& name) {
  if (scaling == Scaling::kNone) return {};
  const Moments m = moments(values);
  Scale scale{m.mean, scaling == Scaling::kMinMax ? m.max - m.min : m.deviation};
  if (m.max == m.min) scale.scale = 0;
  CDT_REQUIRE(std::isfinite(scale.offset) && std::isfinite(scale.scale), "column ", in_quotes(name),
              ": expected a range that float64 can hold, but its values go from ", m.min, " to ",
              m.max);
  return scale;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(values.begin(), middle), *middle);
}

size_t width_of(const FeatureColumn& feature, Encoding encoding) {
  if (feature.type == ColumnType::kNumeric || encoding == Encoding::kIndex) return 1;
  return feature.categories.size() + (feature.missing_seen ? 1 : 0);
}

/// For each category of the table's column the index of the same among the fitted ones, −1 if there
/// is none.
std::vector<int32_t> match_categories(const Column& column, const FeatureColumn& feature) {
  std::vector<int32_t> index;
  index.reserve(column.categories.size());
  for (const std::string& category : column.categories) {
    const auto it =
        std::lower_bound(feature.categories.begin(), feature.categories.end(), category);
    const bool known = it != feature.categories.end() && *it == category;
    index.push_back(known ? static_cast<int32_t>(it - feature.categories.begin()) : -1);
  }
  return index;
}

/// The column's features before scaling, written to out[row · stride + k].
void encode(const Preprocess& preprocess, const FeatureColumn& feature, const Table& table,
            const std::vector<int64_t>& rows, double* out, size_t stride) {
  const Column& column = table.at(feature.name);
  CDT_REQUIRE(column.type == feature.type, table.source, ": expected column ",
              in_quotes(feature.name), " to be ", to_string(feature.type), ", but it is ",
              to_string(column.type));
  if (feature.type == ColumnType::kNumeric) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const double value = column.numbers[static_cast<size_t>(rows[i])];
      out[i * stride] = std::isnan(value) ? feature.fill : value;
    }
    return;
  }
  const std::vector<int32_t> known = match_categories(column, feature);
  const size_t width = width_of(feature, preprocess.encoding);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    const int32_t code = column.codes[row];
    const int32_t index = code < 0 ? -1 : known[static_cast<size_t>(code)];
    CDT_REQUIRE(code < 0 || index >= 0 || preprocess.unknown_category == UnknownCategory::kMissing,
                table.source, ":", table.lines[row], ": expected a known category in column ",
                in_quotes(feature.name), ", but came ",
                in_quotes(column.categories[static_cast<size_t>(code)]), "; known are ",
                list_names(feature.categories));
    double* cell = out + i * stride;
    if (preprocess.encoding == Encoding::kIndex) {
      *cell = index;
      continue;
    }
    std::fill(cell, cell + width, 0.0);
    // Missing without a feature of its own leaves all of them zero.
    const size_t hot = index >= 0 ? static_cast<size_t>(index) : feature.categories.size();
    if (hot < width) cell[hot] = 1;
  }
}

FeatureColumn fit_feature(const Table& table, const Column& column,
                          const std::vector<int64_t>& rows, const PreprocessOptions& options,
                          const Preprocess& preprocess) {
  FeatureColumn feature;
  feature.name = column.name;
  feature.type = column.type;
  if (column.type == ColumnType::kText) {
    feature.categories = column.categories;
    feature.missing_seen =
        std::find(column.codes.begin(), column.codes.end(), -1) != column.codes.end();
  } else if (options.missing_number == MissingNumber::kMedian) {
    std::vector<double> values;
    values.reserve(rows.size());
    for (const int64_t row : rows) values.push_back(column.numbers[static_cast<size_t>(row)]);
    feature.fill = median(std::move(values));
  }
  const size_t width = width_of(feature, preprocess.encoding);
  CDT_REQUIRE(width <= kMostOneHot, table.source, ": expected at most ", kMostOneHot,
              " categories to encode as one-hot, but column ", in_quotes(column.name), " has ",
              column.categories.size(), "; drop it, or encode by index");
  std::vector<double> encoded(rows.size() * width);
  encode(preprocess, feature, table, rows, encoded.data(), width);
  std::vector<double> values(rows.size());
  for (size_t k = 0; k < width; ++k) {
    for (size_t i = 0; i < rows.size(); ++i) values[i] = encoded[i * width + k];
    feature.scales.push_back(fit_scale(values, options.scaling, column.name));
  }
  return feature;
}

void require_names(const Table& table, const PreprocessOptions& options) {
  CDT_REQUIRE(!options.targets.empty(), table.source,
              ": expected one target or more, but came none");
  for (const std::string& name : options.targets) {
    table.at(name);
    CDT_REQUIRE(std::count(options.targets.begin(), options.targets.end(), name) == 1,
                "expected different targets, but came ", in_quotes(name), " twice");
    CDT_REQUIRE(!contains(options.drop, name), "expected ", in_quotes(name),
                " to be either a target or dropped, but came both");
  }
  for (const std::string& name : options.drop) table.at(name);
  CDT_REQUIRE(!options.classes || options.targets.size() == 1, table.source,
              ": expected a single target to learn as classes, but came ",
              list_names(options.targets));
}

}  // namespace

int64_t Preprocess::feature_count() const {
  size_t count = 0;
  for (const FeatureColumn& feature : features) count += width_of(feature, encoding);
  return static_cast<int64_t>(count);
}

int64_t Preprocess::output_count() const {
  return static_cast<int64_t>(has_classes() ? classes().size() : targets.size());
}

std::vector<std::string> Preprocess::feature_names() const {
  std::vector<std::string> names;
  for (const FeatureColumn& feature : features) {
    if (feature.type == ColumnType::kNumeric || encoding == Encoding::kIndex) {
      names.push_back(feature.name);
      continue;
    }
    for (const std::string& category : feature.categories)
      names.push_back(feature.name + "=" + category);
    if (feature.missing_seen) names.push_back(feature.name + "=");
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
    options.keep.push_back(feature.name);
  }
  for (const TargetColumn& target : targets) {
    options.types[target.name] = target.type;
    options.keep.push_back(target.name);
  }
  return options;
}

torch::Tensor Preprocess::transform(const Table& table, const std::vector<int64_t>& rows) const {
  require_rows(table, rows);
  const auto stride = static_cast<size_t>(feature_count());
  torch::Tensor out = torch::empty({static_cast<int64_t>(rows.size()), feature_count()},
                                   torch::TensorOptions().dtype(torch::kFloat64));
  auto* data = out.data_ptr<double>();
  size_t first = 0;
  for (const FeatureColumn& feature : features) {
    encode(*this, feature, table, rows, data + first, stride);
    for (size_t i = 0; i < rows.size(); ++i) {
      double* cell = data + i * stride + first;
      for (size_t k = 0; k < feature.scales.size(); ++k) {
        const Scale& scale = feature.scales[k];
        cell[k] = scale.scale > 0 ? (cell[k] - scale.offset) / scale.scale : 0;
      }
    }
    first += feature.scales.size();
  }
  require_finite(out, table.source + ", scaled");
  return out;
}

torch::Tensor Preprocess::transform(const Table& table) const {
  return transform(table, all_rows(table));
}

torch::Tensor Preprocess::transform_targets(const Table& table,
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
    for (size_t i = 0; i < rows.size(); ++i)
      data[i * targets.size() + t] = (values[i] - targets[t].scale.offset) / targets[t].scale.scale;
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
  for (size_t t = 0; t < targets.size(); ++t)
    out.select(1, static_cast<int64_t>(t))
        .mul_(targets[t].scale.scale)
        .add_(targets[t].scale.offset);
  return out;
}

Preprocess fit_preprocess(const Table& table, const std::vector<int64_t>& rows,
                          const PreprocessOptions& options, const CsvOptions& csv) {
  require_names(table, options);
  CDT_REQUIRE(!rows.empty(), table.source, ": expected rows to fit on, but came none");
  require_rows(table, rows);
  // Sums depend on the order in the last bit.
  std::vector<int64_t> sorted = rows;
  std::sort(sorted.begin(), sorted.end());

  Preprocess out;
  out.encoding = options.encoding;
  out.unknown_category = options.unknown_category;
  out.csv = csv;
  out.csv.delimiter = table.delimiter;
  if (options.classes) out.targets.push_back(fit_classes(table, options.targets[0], sorted));
  for (const std::string& name : options.targets) {
    if (options.classes) break;
    const std::vector<double> values = target_values(table, name, sorted);
    const bool constant = std::all_of(values.begin(), values.end(),
                                      [&](double value) { return value == values.front(); });
    CDT_REQUIRE(!constant || options.target_scaling == Scaling::kNone, table.source,
                ": expected the target ", in_quotes(name), " to vary, but it is ", values.front(),
                " in all ", values.size(), " rows fitted on");
    out.targets.push_back({name, fit_scale(values, options.target_scaling, name), {}});
  }
  for (const Column& column : table.columns) {
    if (contains(options.targets, column.name) || contains(options.drop, column.name)) continue;
    out.features.push_back(fit_feature(table, column, sorted, options, out));
  }
  CDT_REQUIRE(!out.features.empty(), table.source,
              ": expected columns besides targets and dropped ones, but there are none");
  return out;
}

Preprocess fit_preprocess(const Table& table, const PreprocessOptions& options,
                          const CsvOptions& csv) {
  return fit_preprocess(table, all_rows(table), options, csv);
}

}  // namespace cdt::data
