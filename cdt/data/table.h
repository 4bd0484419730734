/// A table with typed, named columns: what a CSV file becomes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::data {

enum class ColumnType { kNumeric, kText };

/// One column. Numeric ones fill `numbers`, text ones `codes` and `categories`.
struct Column {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  std::vector<double> numbers;  ///< [rows]; NaN is a missing value, all others are finite
  std::vector<int32_t> codes;   ///< [rows]; index into `categories`, −1 is a missing value
  std::vector<std::string> categories;  ///< the distinct values, sorted by their bytes

  int64_t rows() const {
    return static_cast<int64_t>(type == ColumnType::kNumeric ? numbers.size() : codes.size());
  }
  bool is_missing(int64_t row) const {
    const auto i = static_cast<size_t>(row);
    return type == ColumnType::kNumeric ? numbers[i] != numbers[i] : codes[i] < 0;
  }
};

struct Table {
  std::string source;    ///< the file, for messages
  std::string checksum;  ///< of all its bytes (cdt/core/checksum.h)
  std::vector<Column> columns;
  std::vector<int64_t> lines;  ///< [rows] where each row begins in the source, from 1

  int64_t rows() const { return static_cast<int64_t>(lines.size()); }
  /// The column of this name, or nullptr.
  const Column* find(std::string_view name) const;
  /// @throws InvalidArgument if there is none; the message lists the columns that there are.
  const Column& at(std::string_view name) const;
};

/// "numeric" or "text".
std::string to_string(ColumnType type);

/// Text from a file, in quotes and fit to be printed: at most 40 bytes, control characters escaped.
std::string in_quotes(std::string_view text);
/// Whether `name` is among `names`.
bool contains(const std::vector<std::string>& names, const std::string& name);
/// Names in quotes with commas between them, at most eight.
std::string list_names(const std::vector<std::string>& names);

}  // namespace cdt::data
