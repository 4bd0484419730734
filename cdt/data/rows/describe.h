/// Describes the contents and anomalies of a table, as printed by `cdt data describe`.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/rows/conflicts.h>
#include <cdt/data/table.h>

namespace cdt::data {

struct ColumnDescription {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  int64_t missing = 0;
  int64_t distinct = 0;   ///< number of distinct values, without missing ones
  bool constant = false;  ///< one value throughout, or all missing
  /// Numeric columns: over values that are not missing; NaN if all are.
  double min = 0, max = 0, mean = 0;
  /// Text columns: at most five most frequent values with their counts, ties by name.
  std::vector<std::pair<std::string, int64_t>> frequent;
  /// A remark for training: constant, dates, an identifier; or empty.
  std::string remark;
};

/// Number of rows per class of a target, in the order of classes.
struct ClassCounts {
  std::string target;
  std::vector<std::pair<std::string, int64_t>> counts;
};

struct Description {
  std::string source;
  int64_t rows = 0;
  std::vector<ColumnDescription> columns;
  /// Groups of columns with the same values in every row (for text: the same categories).
  std::vector<std::vector<std::string>> duplicate_columns;
  /// Number of rows that repeat an earlier one in all columns except the targets.
  int64_t duplicate_rows = 0;
  std::vector<std::string> targets;
  /// For targets that are text, or integers with at most twenty distinct values and on average two
  /// rows each.
  std::vector<ClassCounts> classes;
  /// Conflicts of rows that are equal in all columns except the targets; empty without targets. A
  /// missing target conflicts with none. Distinct texts have a gap of 1.
  std::vector<Conflict> conflicts;
};

/// @throws InvalidArgument if a target is not a column of the table.
Description describe(const Table& table, const std::vector<std::string>& targets = {});

/// The description as text.
std::string to_text(const Description& description);
/// The description as JSON with the names of docs/formats.md.
std::string to_json(const Description& description);

}  // namespace cdt::data
