/// What is in a table and what is odd about it: what `cdt data describe` prints.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/rows/conflicts.h>
#include <cdt/data/table.h>

namespace cdt::data {

struct ColumnDescription {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  int64_t missing = 0;
  int64_t distinct = 0;   ///< different values, missing not counted
  bool constant = false;  ///< carries no information: one value throughout, or nothing but missing
  /// Of numeric columns, over what is not missing; NaN if everything is.
  double min = 0, max = 0, mean = 0;
  /// Of text columns: the most frequent values with their counts, at most five, ties by name.
  std::vector<std::pair<std::string, int64_t>> frequent;
  /// What training should know of it, in words: constant, dates, an identifier; or nothing.
  std::string remark;
};

/// How many rows each class of a target has, in the order of classes.
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
  /// Rows that repeat an earlier one in all columns but the targets.
  int64_t duplicate_rows = 0;
  std::vector<std::string> targets;
  /// Of targets that are text, or whole numbers of which there are few: twenty at most, and on
  /// average two rows of each.
  std::vector<ClassCounts> classes;
  /// Of rows that are equal in all columns but the targets; empty without targets. A missing target
  /// conflicts with none. Texts that differ are 1 apart.
  std::vector<Conflict> conflicts;
};

/// @throws InvalidArgument if a target is no column of the table.
Description describe(const Table& table, const std::vector<std::string>& targets = {});

/// A page for people.
std::string to_text(const Description& description);
/// JSON with the stable names of docs/formats.md.
std::string to_json(const Description& description);

}  // namespace cdt::data
