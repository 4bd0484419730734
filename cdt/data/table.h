/// A table with typed, named columns, from a CSV file or arrays.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/number_format.h>
#include <cdt/data/numbers.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::data {

enum class ColumnType { kNumeric, kText };

/// Which number of 1/2/2020 is the month. A leading year is unambiguous.
enum class DateOrder { kYearFirst, kDayMonth, kMonthDay };

/// Why the cells of a column made it text.
struct NotNumeric {
  int64_t line = 0;     ///< line of the first cell that is not a number
  std::string text;     ///< text of that cell
  int64_t others = 0;   ///< cells that are neither numbers nor missing, including the first
  int64_t numbers = 0;  ///< cells that are numbers
};

/// One column. Numeric ones fill `numbers`, text ones `codes` and `categories`.
struct Column {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  Numbers numbers;             ///< [rows]; NaN is a missing value, all others are finite
  std::vector<int32_t> codes;  ///< [rows]; index into `categories`, −1 is a missing value
  std::vector<std::string> categories;  ///< the distinct values, sorted by their bytes
  std::optional<NotNumeric> not_numeric;
  /// Format of texts that were read as numbers.
  std::optional<NumberFormat> format;
  std::optional<DateOrder> dates;  ///< for ambiguous dates; empty: unspecified
  std::string understood;          ///< how the cells were read, in words; empty: literally
  std::string warning;             ///< loss or ambiguity in the cells; empty: none

  int64_t rows() const {
    return static_cast<int64_t>(type == ColumnType::kNumeric ? numbers.size() : codes.size());
  }
  bool is_missing(int64_t row) const {
    const auto i = static_cast<size_t>(row);
    return type == ColumnType::kNumeric ? numbers[i] != numbers[i] : codes[i] < 0;
  }
};

class Pictures;

/// A starting point for a search. Copies and threads need not agree, since any value is correct.
class Hint {
 public:
  Hint() = default;
  Hint(const Hint&) noexcept {}
  Hint& operator=(const Hint&) noexcept { return *this; }
  size_t get() const { return place_.load(std::memory_order_relaxed); }
  void set(size_t place) { place_.store(place, std::memory_order_relaxed); }

 private:
  std::atomic<size_t> place_{0};
};

struct Table {
  std::string source;    ///< the file, for messages
  std::string checksum;  ///< checksum of all its bytes (cdt/core/io/checksum.h)
  char delimiter = ',';  ///< delimiter of the file
  std::vector<Column> columns;
  std::vector<int64_t> lines;         ///< [rows] line where each row begins in the source, from 1
  std::vector<std::string> left_out;  ///< names of columns that were not read, for messages
  int64_t inputs = 0;  ///< columns of an array of inputs, including those left out; else 0
  /// Pictures of the rows, if these are the features; the columns then describe each.
  std::shared_ptr<const Pictures> pictures;
  /// Position after the column found last, since columns are often looked up in order.
  mutable Hint next = {};

  int64_t rows() const { return static_cast<int64_t>(lines.size()); }
  /// The column of this name, or nullptr.
  const Column* find(std::string_view name) const;
  /// @throws InvalidArgument if there is none; the message lists the columns.
  const Column& at(std::string_view name) const;
};

/// Reports a missing column, the existing ones, and a likely cause.
/// @throws InvalidArgument
[[noreturn]] void refuse_column(const std::string& source, std::string_view name,
                                const std::vector<std::string>& names, char delimiter);

/// `role` is the column's purpose, "the target"; `advice` ends the message.
/// @throws InvalidArgument, naming the first cell that is not a number, if the column is text.
void require_numeric(const Table& table, const Column& column, std::string_view role,
                     std::string_view advice = "");

/// Warnings about the table: columns that are text because of a few cells, while at least twice as
/// many are numbers, or because of commas in numbers.
std::vector<std::string> warnings_of(const Table& table);

/// "numeric" or "text".
std::string to_string(ColumnType type);

/// Text from a file, in quotes and printable: at most 40 bytes, control characters escaped.
std::string in_quotes(std::string_view text);
/// Whether `name` is among `names`.
bool contains(const std::vector<std::string>& names, const std::string& name);
/// Up to eight names in quotes, separated by commas.
std::string list_names(const std::vector<std::string>& names);
/// The same, beginning with the names most similar to `name`: first those that differ only in case,
/// then by edit distance.
std::string list_nearest(std::vector<std::string> names, std::string_view name);

}  // namespace cdt::data
