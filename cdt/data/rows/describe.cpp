#include "cdt/data/rows/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "cdt/core/error.h"
#include "cdt/core/io/json.h"
#include "cdt/core/text/format.h"
#include "cdt/core/text/text.h"
#include "cdt/data/dates.h"
#include "cdt/data/encode/identifiers.h"
#include "cdt/data/rows/equal_rows.h"

namespace cdt::data {
namespace {

using Json = nlohmann::ordered_json;

ColumnDescription describe_column(const Column& column) {
  ColumnDescription out;
  out.name = column.name;
  out.type = column.type;
  const int64_t rows = column.rows();
  for (int64_t row = 0; row < rows; ++row) out.missing += column.is_missing(row) ? 1 : 0;
  if (column.type == ColumnType::kNumeric) {
    std::vector<double> values;
    values.reserve(column.numbers.size());
    std::copy_if(column.numbers.begin(), column.numbers.end(), std::back_inserter(values),
                 [](double value) { return !std::isnan(value); });
    std::sort(values.begin(), values.end());
    const double count = static_cast<double>(values.size());
    out.min = values.empty() ? NAN : values.front();
    out.max = values.empty() ? NAN : values.back();
    out.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;  // 0/0 is NaN
    out.distinct = std::unique(values.begin(), values.end()) - values.begin();
  } else {
    std::vector<int64_t> counts(column.categories.size(), 0);
    for (const int32_t code : column.codes) {
      if (code >= 0) ++counts[static_cast<size_t>(code)];
    }
    out.distinct = static_cast<int64_t>(counts.size());
    std::vector<size_t> order(counts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return counts[a] > counts[b]; });
    for (size_t i = 0; i < std::min<size_t>(order.size(), 5); ++i) {
      out.frequent.emplace_back(column.categories[order[i]], counts[order[i]]);
    }
  }
  out.constant = out.distinct == 0 || (out.distinct == 1 && out.missing == 0);
  return out;
}

/// Rows of the group that have all targets, and the differences of these.
Conflict find_conflict(const std::vector<const Column*>& targets, const std::vector<int64_t>& rows,
                       const Table& table) {
  Conflict conflict;
  for (const int64_t row : rows) {
    if (std::any_of(targets.begin(), targets.end(),
                    [&](const Column* target) { return target->is_missing(row); })) {
      continue;
    }
    conflict.rows.push_back(row);
    conflict.lines.push_back(table.lines[static_cast<size_t>(row)]);
  }
  for (const Column* target : targets) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    const bool text = target->type == ColumnType::kText;
    for (const int64_t row : conflict.rows) {
      const auto i = static_cast<size_t>(row);
      const double value = text ? target->codes[i] : target->numbers[i];
      low = std::min(low, value);
      high = std::max(high, value);
    }
    const double gap = conflict.rows.empty() ? 0 : high - low;
    conflict.gaps.push_back(text && gap > 0 ? 1 : gap);
  }
  return conflict;
}

std::string class_line(const std::string& target,
                       const std::vector<std::pair<std::string, int64_t>>& counts) {
  constexpr size_t kShown = 20;
  std::string text = fmt::format("{} as classes: {}: ", printable_name(target), counts.size());
  for (size_t i = 0; i < std::min(counts.size(), kShown); ++i)
    text +=
        fmt::format("{}{} ({})", i > 0 ? ", " : "", in_quotes(counts[i].first), counts[i].second);
  if (counts.size() > kShown) text += fmt::format(" and {} more", counts.size() - kShown);
  return text + "\n";
}

std::string values_of(const ColumnDescription& column) {
  if (column.distinct == 0) return "all missing";
  std::string text;
  if (column.type == ColumnType::kNumeric) {
    text = fmt::format("{:g} to {:g}, mean {:g}", column.min, column.max, column.mean);
  } else {
    size_t shown = 0;
    for (const auto& [value, count] : column.frequent) {
      if (text.size() > 50) break;
      text += fmt::format("{}{} ({})", shown++ > 0 ? ", " : "", in_quotes(value), count);
    }
    if (shown < static_cast<size_t>(column.distinct)) text += ", …";
  }
  return text;
}

/// A remark about the column's effect on training, or empty.
std::string remark_on(const Table& table, const Column& column, const ColumnDescription& found) {
  if (found.constant) return "constant";
  if (!column.understood.empty()) return column.understood;
  if (holds_dates(column)) return "dates";
  if (const auto reason = identifier_reason(table, column)) return "an identifier? " + *reason;
  if (column.type == ColumnType::kText && found.distinct == table.rows() && table.rows() > 1)
    return "all different: an identifier?";
  return "";
}

/// Number of rows per class, if the target is text or has few distinct integers.
std::optional<ClassCounts> count_classes(const Column& column) {
  constexpr size_t kMostClasses = 20;
  ClassCounts found{column.name, {}};
  if (column.type == ColumnType::kText) {
    for (const std::string& category : column.categories) found.counts.emplace_back(category, 0);
    for (const int32_t code : column.codes) {
      if (code >= 0) ++found.counts[static_cast<size_t>(code)].second;
    }
    return found;
  }
  std::map<double, int64_t> counts;
  int64_t rows = 0;
  for (const double value : column.numbers) {
    if (std::isnan(value)) continue;
    ++rows;
    ++counts[value];
    if (value != std::floor(value) || std::abs(value) > 1e15 || counts.size() > kMostClasses)
      return std::nullopt;
  }
  if (2 * static_cast<int64_t>(counts.size()) > rows) return std::nullopt;
  for (const auto& [value, count] : counts) {
    found.counts.emplace_back(fmt::format("{:.0f}", value == 0 ? 0.0 : value), count);
  }
  return found;
}

}  // namespace

Description describe(const Table& table, const std::vector<std::string>& targets) {
  Description out;
  out.source = table.source;
  out.rows = table.rows();
  out.targets = targets;
  std::vector<const Column*> target_columns, features;
  for (const std::string& name : targets) {
    const Column& column = table.at(name);
    target_columns.push_back(&column);
    if (auto counts = count_classes(column)) out.classes.push_back(std::move(*counts));
  }
  for (const Column& column : table.columns) {
    out.columns.push_back(describe_column(column));
    out.columns.back().remark = remark_on(table, column, out.columns.back());
    if (std::find(targets.begin(), targets.end(), column.name) == targets.end())
      features.push_back(&column);
  }

  for (const auto& members : equal_columns(table.columns)) {
    auto& names = out.duplicate_columns.emplace_back();
    for (const int64_t i : members) names.push_back(table.columns[static_cast<size_t>(i)].name);
  }

  std::vector<int64_t> rows(static_cast<size_t>(out.rows));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  for (const auto& members : equal_rows(features, rows)) {
    out.duplicate_rows += static_cast<int64_t>(members.size()) - 1;
    Conflict conflict = find_conflict(target_columns, members, table);
    if (std::any_of(conflict.gaps.begin(), conflict.gaps.end(), [](double gap) { return gap > 0; }))
      out.conflicts.push_back(std::move(conflict));
  }
  return out;
}

std::string to_text(const Description& d) {
  size_t width = 6;
  for (const auto& column : d.columns) width = std::max(width, in_quotes(column.name).size() - 2);
  std::string text = fmt::format("{}: {} × {}\n\n", d.source, count_of(d.rows, "row"),
                                 count_of(static_cast<int64_t>(d.columns.size()), "column"));
  text += fmt::format("  {:<{}}  {:<7}  {:>8}  {:>8}  values\n", "column", width, "type", "missing",
                      "distinct");
  for (const auto& column : d.columns) {
    const std::string shown = in_quotes(column.name);
    text +=
        fmt::format("  {:<{}}  {:<7}  {:>8}  {:>8}  {}{}\n", shown.substr(1, shown.size() - 2),
                    width, to_string(column.type), column.missing, column.distinct,
                    values_of(column), column.remark.empty() ? "" : "  [" + column.remark + "]");
  }
  text += "\n";
  for (const auto& [target, counts] : d.classes) text += class_line(target, counts);
  for (const auto& names : d.duplicate_columns)
    text += fmt::format("Columns with the same values: {}\n", list_names(names));
  if (d.duplicate_rows > 0) {
    text += fmt::format(
        "{} an earlier one{}\n",
        count_of(d.duplicate_rows, "row") + (d.duplicate_rows == 1 ? " repeats" : " repeat"),
        d.targets.empty() ? "" : " in everything but the target");
  } else {
    text += "No row repeats another\n";
  }
  constexpr size_t kShown = 20;
  for (size_t i = 0; i < std::min(d.conflicts.size(), kShown); ++i) {
    const Conflict& conflict = d.conflicts[i];
    std::string gaps;
    for (size_t t = 0; t < d.targets.size(); ++t) {
      const auto column = std::find_if(d.columns.begin(), d.columns.end(),
                                       [&](const auto& each) { return each.name == d.targets[t]; });
      const bool words = column != d.columns.end() && column->type == ColumnType::kText;
      gaps += fmt::format("{}{}", t > 0 ? ", " : "", printable_name(d.targets[t]));
      if (!words) gaps += fmt::format(" up to {:g} apart", conflict.gaps[t]);
    }
    text += fmt::format("Conflict: lines {} are the same but for {}\n", list_rows(conflict.lines),
                        gaps);
  }
  if (d.conflicts.size() > kShown)
    text += fmt::format("… and {} more conflicts\n", d.conflicts.size() - kShown);
  return text;
}

std::string to_json(const Description& d) {
  Json columns = Json::array();
  for (const auto& column : d.columns) {
    Json entry{{"name", column.name},
               {"type", to_string(column.type)},
               {"missing", column.missing},
               {"distinct", column.distinct},
               {"constant", column.constant}};
    if (column.type == ColumnType::kNumeric) {
      entry["min"] = number_or_null(column.min);
      entry["max"] = number_or_null(column.max);
      entry["mean"] = number_or_null(column.mean);
    } else {
      entry["frequent"] = Json::array();
      for (const auto& [value, count] : column.frequent)
        entry["frequent"].push_back({{"value", value}, {"count", count}});
    }
    if (!column.remark.empty()) entry["remark"] = column.remark;
    columns.push_back(std::move(entry));
  }
  Json classes = Json::object();
  for (const auto& [target, counts] : d.classes) {
    classes[target] = Json::array();
    for (const auto& [value, count] : counts)
      classes[target].push_back({{"value", value}, {"count", count}});
  }
  Json conflicts = Json::array();
  for (const auto& conflict : d.conflicts) {
    Json gaps = Json::object();
    for (size_t t = 0; t < d.targets.size(); ++t)
      gaps[d.targets[t]] = number_or_null(conflict.gaps[t]);
    conflicts.push_back({{"rows", conflict.rows}, {"lines", conflict.lines}, {"gaps", gaps}});
  }
  return dump_readably({{"file", d.source},
                        {"rows", d.rows},
                        {"columns", columns},
                        {"duplicate_columns", d.duplicate_columns},
                        {"duplicate_rows", d.duplicate_rows},
                        {"targets", d.targets},
                        {"classes", classes},
                        {"conflicts", conflicts}});
}

}  // namespace cdt::data
