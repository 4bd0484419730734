#include "cdt/data/encode/encoding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "cdt/core/error.h"
#include "cdt/core/text/text.h"
#include "cdt/data/encode/identifiers.h"
#include "cdt/data/encode/statistics.h"

namespace cdt::data {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
/// Indices of missing and unknown texts.
constexpr int32_t kNoText = -1, kUnknownText = -2;

std::string full_name(const FeatureColumn& feature) {
  return feature.part ? feature.name + "." + to_string(*feature.part) : feature.name;
}

const Column& column_of(const FeatureColumn& feature, const Table& table) {
  const Column& column = table.at(feature.name);
  CDT_REQUIRE(column.type == feature.type, table.source, ": expected column ",
              in_quotes(feature.name), " to be ", to_string(feature.type), ", got ",
              to_string(column.type));
  return column;
}

/// The order in which to read the column's dates: that of training if all are dates in it,
/// otherwise the one that the values show.
DateOrder order_of(const Column& column, const FeatureColumn& feature) {
  const bool same = std::ranges::all_of(column.categories, [&](const std::string& text) {
    return parse_date(text, feature.dates).has_value();
  });
  return same ? feature.dates : date_order(column).value_or(feature.dates);
}

/// The part of the date for each category of the table's column; kMissing if it is not a date.
std::vector<double> date_parts(const Column& column, const FeatureColumn& feature) {
  std::vector<double> values;
  values.reserve(column.categories.size());
  const DateOrder order = order_of(column, feature);
  for (const std::string& text : column.categories) {
    const auto date = parse_date(text, order);
    values.push_back(date ? part_of(*date, *feature.part) : kMissing);
  }
  return values;
}

/// Looks up categories by value: "1" equals "1.0", and "true" equals "TRUE" and 1. Categories with
/// equal values are distinguished by text only.
class ByValue {
 public:
  explicit ByValue(const FeatureColumn& feature) {
    for (size_t i = 0; i < feature.categories.size(); ++i) {
      add(feature.categories[i], static_cast<int32_t>(i));
    }
    for (const std::string& other : feature.others) {
      add(other, static_cast<int32_t>(feature.categories.size()));
    }
  }
  int32_t find(const std::string& text) const {
    const auto key = value_key(text);
    const auto found = key ? index_.find(*key) : index_.end();
    return found == index_.end() ? kUnknownText : found->second;
  }

 private:
  void add(const std::string& text, int32_t index) {
    const auto key = value_key(text);
    if (!key) return;
    const auto [it, fresh] = index_.emplace(*key, index);
    if (!fresh && it->second != index) it->second = kUnknownText;
  }

  std::unordered_map<std::string, int32_t> index_;
};

/// For each category of the table's column, the index of the feature's matching category; rare ones
/// follow, kUnknownText means none.
std::vector<int32_t> match_categories(const Column& column, const FeatureColumn& feature) {
  std::vector<int32_t> index;
  index.reserve(column.categories.size());
  if (feature.part) {
    for (const double value : date_parts(column, feature)) {
      index.push_back(std::isnan(value) ? kUnknownText : static_cast<int32_t>(value) - 1);
    }
    return index;
  }
  const auto& known = feature.categories;
  std::optional<ByValue> by_value;
  for (const std::string& category : column.categories) {
    const auto it = std::lower_bound(known.begin(), known.end(), category);
    if (it != known.end() && *it == category) {
      index.push_back(static_cast<int32_t>(it - known.begin()));
      continue;
    }
    const bool rare = std::binary_search(feature.others.begin(), feature.others.end(), category);
    if (!rare && !by_value) by_value.emplace(feature);
    index.push_back(rare ? static_cast<int32_t>(known.size()) : by_value->find(category));
  }
  return index;
}

/// For each category of the column, whether it is unknown to the feature.
std::vector<bool> unknown_of(const Column& column, const FeatureColumn& feature) {
  std::vector<bool> unknown;
  unknown.reserve(column.categories.size());
  if (feature.is_number()) {
    for (const double value : date_parts(column, feature)) unknown.push_back(std::isnan(value));
  } else {
    for (const int32_t index : match_categories(column, feature))
      unknown.push_back(index == kUnknownText);
  }
  return unknown;
}

void require_known(const FeatureColumn& feature, const Table& table, const Column& column,
                   const std::vector<int64_t>& rows) {
  const std::vector<bool> unknown = unknown_of(column, feature);
  for (const int64_t row : rows) {
    const int32_t code = column.codes[static_cast<size_t>(row)];
    if (code < 0 || !unknown[static_cast<size_t>(code)]) continue;
    throw InvalidArgument(c10::str(
        table.source, ":", table.lines[static_cast<size_t>(row)], ": expected a ",
        feature.part ? "date" : "known category", " in column ", in_quotes(feature.name), ", got ",
        in_quotes(column.categories[static_cast<size_t>(code)]),
        feature.part ? ""
                     : "; known are " + list_nearest(feature.categories,
                                                     column.categories[static_cast<size_t>(code)]),
        "; in training, --unknown missing takes what is new for rare or missing, and --drop ",
        printable_name(feature.name), " leaves the column out"));
  }
}

/// Numbers of these rows, kMissing if missing.
std::vector<double> numbers_of(const FeatureColumn& feature, const Column& column,
                               const std::vector<int64_t>& rows) {
  std::vector<double> numbers;
  numbers.reserve(rows.size());
  if (!feature.part) {
    for (const int64_t row : rows) numbers.push_back(column.numbers[static_cast<size_t>(row)]);
    return numbers;
  }
  const std::vector<double> values = date_parts(column, feature);
  for (const int64_t row : rows) {
    const int32_t code = column.codes[static_cast<size_t>(row)];
    numbers.push_back(code < 0 ? kMissing : values[static_cast<size_t>(code)]);
  }
  return numbers;
}

/// The share of the piece from `low` to `high` below x.
double piece(double x, double low, double high) {
  if (x <= low) return 0;
  if (x >= high) return 1;
  const double width = high - low;
  return std::isfinite(width) ? (x - low) / width : (x / 2 - low / 2) / (high / 2 - low / 2);
}

void write_number(const FeatureColumn& feature, double number, double* cell) {
  const bool missing = std::isnan(number);
  const double x = missing ? feature.fill : number;
  *cell++ = x;
  if (feature.missing_indicator) *cell++ = missing ? 1 : 0;
  for (size_t k = 0; k + 1 < feature.knots.size(); ++k) {
    *cell++ = piece(x, feature.knots[k], feature.knots[k + 1]);
  }
}

void write_category(const FeatureColumn& feature, Encoding encoding, int32_t index, double* cell) {
  if (encoding == Encoding::kIndex) {
    *cell = std::max(index, kNoText);
    return;
  }
  const size_t levels = feature.categories.size();
  const size_t others = feature.other_feature ? 1 : 0;
  std::fill(cell, cell + width_of(feature, encoding), 0.0);
  // Categories without a feature leave all features zero. Unknown ones count as rare.
  if (index == kUnknownText && feature.other_feature) {
    cell[levels] = 1;
  } else if (index < 0) {
    if (feature.missing_seen) cell[levels + others] = 1;
  } else if (static_cast<size_t>(index) < levels + others) {
    cell[index] = 1;
  }
}

/// The column's features before scaling.
void encode_raw(const Preprocess& preprocess, const FeatureColumn& feature, const Table& table,
                const std::vector<int64_t>& rows, double* out, size_t stride) {
  const Column& column = column_of(feature, table);
  if (feature.type == ColumnType::kText && preprocess.unknown_category == UnknownCategory::kError) {
    require_known(feature, table, column, rows);
  }
  if (feature.is_number()) {
    const std::vector<double> numbers = numbers_of(feature, column, rows);
    for (size_t i = 0; i < rows.size(); ++i) write_number(feature, numbers[i], out + i * stride);
    return;
  }
  const std::vector<int32_t> known = match_categories(column, feature);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t code = column.codes[static_cast<size_t>(rows[i])];
    write_category(feature, preprocess.encoding,
                   code < 0 ? kNoText : known[static_cast<size_t>(code)], out + i * stride);
  }
}

void fit_number(const Column& column, const FitRows& fit, const PreprocessOptions& options,
                FeatureColumn& feature) {
  const std::vector<double> values = numbers_of(feature, column, fit.rows);
  if (options.missing_number == MissingNumber::kMedian) feature.fill = median(values, fit.weights);
  // The parts of a date are missing together, so one indicator suffices.
  feature.missing_indicator =
      options.missing_indicator && (!feature.part || feature.part == DatePart::kDay) &&
      std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
  if (options.quantiles == 0) return;
  std::vector<double> distinct = values;
  std::erase_if(distinct, [](double x) { return std::isnan(x); });
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const std::vector<double> knots = quantiles(values, fit.weights, options.quantiles);
  if (distinct.size() < 3 || knots.size() < 3) return;
  feature.knots = knots;
  feature.piece_weight = options.quantile_weight > 0 ? options.quantile_weight
                         : options.grouped           ? 1
                                           : 1 / std::sqrt(static_cast<double>(knots.size() - 1));
}

/// Determines categories with their own features and rare ones, by their number of rows.
void fit_levels(const Column& column, const FitRows& fit, const PreprocessOptions& options,
                FeatureColumn& feature) {
  std::vector<int64_t> counts(column.categories.size(), 0);
  feature.missing_seen = false;
  for (const int64_t row : fit.rows) {
    const int32_t code = column.codes[static_cast<size_t>(row)];
    if (code < 0) {
      feature.missing_seen = true;
    } else {
      ++counts[static_cast<size_t>(code)];
    }
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] >= std::max<int64_t>(options.rare_rows, 1)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return counts[a] > counts[b]; });
  if (options.max_levels > 0 && static_cast<int64_t>(order.size()) > options.max_levels)
    order.resize(static_cast<size_t>(options.max_levels));
  std::sort(order.begin(), order.end());
  feature.categories.clear();
  int64_t rows_of_others = 0;
  for (size_t i = 0, next = 0; i < counts.size(); ++i) {
    if (next < order.size() && order[next] == i) {
      feature.categories.push_back(column.categories[i]);
      ++next;
    } else if (counts[i] > 0 || options.unknown_category == UnknownCategory::kError) {
      feature.others.push_back(column.categories[i]);
      rows_of_others += counts[i];
    }
  }
  feature.other_feature = rows_of_others >= std::max<int64_t>(options.rare_rows, 1);
}

void fit_category(const Column& column, const FitRows& fit, const PreprocessOptions& options,
                  FeatureColumn& feature) {
  if (feature.part) {
    feature.categories = categories_of(*feature.part);
    return;
  }
  feature.categories = column.categories;
  feature.missing_seen =
      std::find(column.codes.begin(), column.codes.end(), kNoText) != column.codes.end();
  if (options.encoding == Encoding::kOneHot && (options.max_levels > 0 || options.rare_rows > 0))
    fit_levels(column, fit, options, feature);
}

/// A feature column with its scales; whether one of its features varies.
struct FittedColumn {
  FeatureColumn feature;
  bool varies = false;
};

/// Groups features from `from` on: all get the root of the sum of their squared scales.
void group(std::vector<Scale>& scales, size_t from) {
  double square = 0;
  for (size_t k = from; k < scales.size(); ++k) square += scales[k].scale * scales[k].scale;
  for (size_t k = from; k < scales.size(); ++k) {
    if (scales[k].scale > 0) scales[k].scale = std::sqrt(square);
  }
}

FittedColumn fit_one(const Table& table, const Column& column, std::optional<DatePart> part,
                     const FitRows& fit, const PreprocessOptions& options,
                     const Preprocess& preprocess) {
  FittedColumn found;
  FeatureColumn& feature = found.feature;
  feature.name = column.name;
  feature.type = column.type;
  feature.part = part;
  feature.format = column.format;
  if (part) feature.dates = date_order(column).value_or(DateOrder::kYearFirst);
  feature.complete =
      std::ranges::none_of(fit.rows, [&](int64_t row) { return column.is_missing(row); });
  if (feature.is_number()) {
    fit_number(column, fit, options, feature);
  } else {
    fit_category(column, fit, options, feature);
  }
  const size_t width = width_of(feature, preprocess.encoding);
  CDT_REQUIRE(feature.is_number() || width <= kMostOneHot, table.source, ": expected at most ",
              kMostOneHot, " categories to encode as one-hot, but column ", in_quotes(column.name),
              " has ", column.categories.size(), "; drop it, or encode by index");
  const size_t rows = fit.rows.size();
  std::vector<double> encoded(rows * width);
  encode_raw(preprocess, feature, table, fit.rows, encoded.data(), width);
  std::vector<double> values(rows);
  for (size_t k = 0; k < width; ++k) {
    for (size_t i = 0; i < rows; ++i) values[i] = encoded[i * width + k];
    feature.scales.push_back(fit_scale(values, fit.weights, options.scaling, column.name));
    found.varies = found.varies || std::any_of(values.begin(), values.end(),
                                               [&](double x) { return x != values.front(); });
  }
  if (options.grouped && feature.is_number()) {
    if (feature.missing_indicator) feature.scales[1].scale *= 2;
    group(feature.scales, feature.missing_indicator ? 2 : 1);
  } else if (options.grouped && width > 1) {
    group(feature.scales, 0);
  }
  return found;
}

/// Notes the choices made for a column, if any.
void note_number(const Column& column, const FitRows& fit, const FeatureColumn& feature,
                 Preprocess& preprocess) {
  if (!feature.missing_indicator) return;
  const auto missing = std::count_if(fit.rows.begin(), fit.rows.end(),
                                     [&](int64_t row) { return column.is_missing(row); });
  preprocess.notes.push_back(
      fmt::format("{}: {} of {} values are missing; filled with {:.6g}, and marked by a feature",
                  printable_name(column.name), missing, fit.rows.size(), feature.fill));
}

/// Why a column has no information in the rows fitted on.
std::string silence_of(const Column& column, const FitRows& fit) {
  const auto all = [&](auto same) { return std::all_of(fit.rows.begin(), fit.rows.end(), same); };
  if (all([&](int64_t row) { return column.is_missing(row); })) return "missing in all";
  const auto first = static_cast<size_t>(fit.rows.front());
  const bool constant = all([&](int64_t row) {
    const auto i = static_cast<size_t>(row);
    return column.type == ColumnType::kText ? column.codes[i] == column.codes[first]
                                            : column.numbers[i] == column.numbers[first];
  });
  return constant ? "the same in all" : "no category is frequent enough in the";
}

const char* words_of(DateOrder order) {
  return order == DateOrder::kDayMonth   ? " with the day before the month"
         : order == DateOrder::kMonthDay ? " with the month before the day"
                                         : "";
}

void note_levels(const Column& column, const FeatureColumn& feature, Preprocess& preprocess) {
  if (feature.others.empty()) return;
  preprocess.notes.push_back(
      fmt::format("{}: {} of {} categories have features of their own; the remaining ones {}",
                  printable_name(column.name), feature.categories.size(), column.categories.size(),
                  feature.other_feature ? "share one" : "have none"));
}

}  // namespace

bool FeatureColumn::is_number() const {
  return part ? !is_cyclic(*part) : type == ColumnType::kNumeric;
}

double smooth_clip(double x, double c) {
  const double half = c / 2, beyond = std::abs(x) - half;
  if (beyond <= 0) return x;
  return std::copysign(half * (1 + std::tanh(beyond / half)), x);
}

size_t width_of(const FeatureColumn& feature, Encoding encoding) {
  if (feature.is_number()) {
    return 1 + (feature.missing_indicator ? 1 : 0) +
           (feature.knots.empty() ? 0 : feature.knots.size() - 1);
  }
  if (encoding == Encoding::kIndex) return 1;
  return feature.categories.size() + (feature.other_feature ? 1 : 0) +
         (feature.missing_seen ? 1 : 0);
}

std::vector<std::string> names_of(const FeatureColumn& feature, Encoding encoding) {
  const std::string name = full_name(feature);
  if (feature.is_number()) {
    std::vector<std::string> names{name};
    if (feature.missing_indicator) names.push_back(name + "=");
    for (size_t k = 0; k + 1 < feature.knots.size(); ++k) {
      names.push_back(
          fmt::format("{}[{:.6g}, {:.6g}]", name, feature.knots[k], feature.knots[k + 1]));
    }
    return names;
  }
  if (encoding == Encoding::kIndex) return {name};
  std::vector<std::string> names;
  for (const std::string& category : feature.categories) names.push_back(name + "=" + category);
  if (feature.other_feature) names.push_back(name + "=(others)");
  if (feature.missing_seen) names.push_back(name + "=");
  return names;
}

void encode(const Preprocess& preprocess, const FeatureColumn& feature, const Table& table,
            const std::vector<int64_t>& rows, double* out, size_t stride) {
  encode_raw(preprocess, feature, table, rows, out, stride);
  const size_t pieces_from = 1 + (feature.missing_indicator ? 1 : 0);
  const bool pieces = feature.is_number() && !feature.knots.empty();
  for (size_t i = 0; i < rows.size(); ++i) {
    double* cell = out + i * stride;
    for (size_t k = 0; k < feature.scales.size(); ++k) {
      const Scale& scale = feature.scales[k];
      cell[k] = scale.scale > 0 ? (cell[k] - scale.offset) / scale.scale : 0;
      if (preprocess.clip > 0) cell[k] = smooth_clip(cell[k], preprocess.clip);
      if (pieces && k >= pieces_from) cell[k] *= feature.piece_weight;
    }
  }
}

UnknownTexts unknown_texts_of(const FeatureColumn& feature, const Table& table) {
  UnknownTexts found{feature.name, 0, "", 0, feature.other_feature ? "rare" : "missing"};
  if (feature.type != ColumnType::kText) return found;
  const Column& column = column_of(feature, table);
  const std::vector<bool> unknown = unknown_of(column, feature);
  for (size_t row = 0; row < column.codes.size(); ++row) {
    const int32_t code = column.codes[row];
    if (code < 0 || !unknown[static_cast<size_t>(code)]) continue;
    if (found.rows++ > 0) continue;
    found.first = column.categories[static_cast<size_t>(code)];
    found.line = table.lines[row];
  }
  return found;
}

UnknownTexts newly_missing(const FeatureColumn& feature, const Table& table) {
  UnknownTexts found{feature.name, 0, "", 0, "no category", true};
  if (!feature.complete) return found;
  if (feature.is_number()) found.taken_for = fmt::format("{:.6g}", feature.fill);
  if (feature.part) found.taken_for = "a usual day";
  const Column& column = column_of(feature, table);
  for (int64_t row = 0; row < column.rows(); ++row) {
    if (!column.is_missing(row) || found.rows++ > 0) continue;
    found.line = table.lines[static_cast<size_t>(row)];
  }
  return found;
}

void mark_unfamiliar(const FeatureColumn& feature, const Table& table,
                     const std::vector<int64_t>& rows, std::vector<bool>& marked) {
  const Column& column = column_of(feature, table);
  const bool text = feature.type == ColumnType::kText;
  const std::vector<bool> unknown = text ? unknown_of(column, feature) : std::vector<bool>();
  // Texts treated as missing are covered by what represents missing values.
  const bool told = feature.is_number() ? !feature.complete : feature.missing_seen;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    if (column.is_missing(rows[i])) {
      marked[i] = marked[i] || feature.complete;
    } else if (text && unknown[static_cast<size_t>(column.codes[row])]) {
      marked[i] = marked[i] || !(told || feature.other_feature);
    }
  }
}

Scale fit_scale(const std::vector<double>& values, const std::vector<double>& weights,
                Scaling scaling, const std::string& name) {
  if (scaling == Scaling::kNone) return {};
  const Moments m = moments(values, weights);
  Scale scale{m.mean, scaling == Scaling::kMinMax ? m.max - m.min : m.deviation};
  if (m.max == m.min) scale.scale = 0;
  CDT_REQUIRE(std::isfinite(scale.offset) && std::isfinite(scale.scale), "column ", in_quotes(name),
              ": expected a range that float64 can hold, but its values go from ", m.min, " to ",
              m.max);
  return scale;
}

void fit_column(const Table& table, const Column& column, const FitRows& fit,
                const PreprocessOptions& options, Preprocess& preprocess) {
  const bool may_leave_out = options.select && !contains(options.keep, column.name);
  const std::string name = printable_name(column.name);
  if (may_leave_out) {
    if (const auto reason = identifier_reason(table, column)) {
      preprocess.notes.push_back(
          fmt::format("{}: left out, an identifier: {} (--keep {} takes it)", name, *reason, name));
      return;
    }
  }
  const auto typed = preprocess.csv.types.find(column.name);
  const bool dates = options.dates && typed == preprocess.csv.types.end() && holds_dates(column);
  std::vector<FittedColumn> found;
  if (dates) {
    for (const DatePart part : kDateParts)
      found.push_back(fit_one(table, column, part, fit, options, preprocess));
  } else {
    found.push_back(fit_one(table, column, std::nullopt, fit, options, preprocess));
  }
  if (may_leave_out) {
    std::erase_if(found, [](const FittedColumn& each) { return !each.varies; });
    if (found.empty()) {
      preprocess.notes.push_back(fmt::format("{}: left out, {} {} rows fitted on", name,
                                             silence_of(column, fit), fit.rows.size()));
      return;
    }
  }
  if (!column.understood.empty()) {
    preprocess.notes.push_back(name + ": " + column.understood);
  }
  std::vector<std::string> parts;
  for (FittedColumn& each : found) {
    if (dates) {
      parts.push_back(to_string(*each.feature.part));
    } else if (each.feature.is_number()) {
      note_number(column, fit, each.feature, preprocess);
    } else {
      note_levels(column, each.feature, preprocess);
    }
    preprocess.features.push_back(std::move(each.feature));
  }
  if (dates) {
    preprocess.notes.push_back(
        fmt::format("{}: dates{}, taken as {} (--text {} makes them categories)", name,
                    words_of(date_order(column).value_or(DateOrder::kYearFirst)),
                    fmt::join(parts, ", "), name));
  }
}

}  // namespace cdt::data
