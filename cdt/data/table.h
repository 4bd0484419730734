/// A table with typed, named columns: what a CSV file becomes, or arrays.
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

/// Which number of 1/2/2020 is the month. Years in front leave nothing open.
enum class DateOrder { kYearFirst, kDayMonth, kMonthDay };

/// Why a column is text, if its cells decided that.
struct NotNumeric {
  int64_t line = 0;     ///< of the first cell that is no number
  std::string text;     ///< of that cell
  int64_t others = 0;   ///< cells that are neither numbers nor missing, that one included
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
  /// Of texts that are numbers, and were read so.
  std::optional<NumberFormat> format;
  std::optional<DateOrder> dates;  ///< for dates whose values leave it open, if given
  std::string understood;          ///< how the cells were read, in words; empty: as they stand
  std::string warning;             ///< what is lost or in doubt; empty: nothing

  int64_t rows() const {
    return static_cast<int64_t>(type == ColumnType::kNumeric ? numbers.size() : codes.size());
  }
  bool is_missing(int64_t row) const {
    const auto i = static_cast<size_t>(row);
    return type == ColumnType::kNumeric ? numbers[i] != numbers[i] : codes[i] < 0;
  }
};

class Pictures;

/// Where a search may begin. It is right or wrong by chance: copies and threads need not agree.
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
  std::string checksum;  ///< of all its bytes (cdt/core/io/checksum.h)
  char delimiter = ',';  ///< between its fields
  std::vector<Column> columns;
  std::vector<int64_t> lines;         ///< [rows] where each row begins in the source, from 1
  std::vector<std::string> left_out;  ///< names of columns that were not read, for messages
  int64_t inputs = 0;  ///< columns of an array of inputs, with those left out; else 0
  /// Of the rows, if pictures are what is to be learned from; columns then say what each is.
  std::shared_ptr<const Pictures> pictures;
  /// Behind the column that was found last: mostly they are asked for one after the other.
  mutable Hint next = {};

  int64_t rows() const { return static_cast<int64_t>(lines.size()); }
  /// The column of this name, or nullptr.
  const Column* find(std::string_view name) const;
  /// @throws InvalidArgument if it does not exist; the message lists the columns.
  const Column& at(std::string_view name) const;
};

/// Says that there is no such column, which there are, and what may be behind it.
/// @throws InvalidArgument
[[noreturn]] void refuse_column(const std::string& source, std::string_view name,
                                const std::vector<std::string>& names, char delimiter);

/// `role` is what it is for: "the target"; `advice` ends the message.
/// @throws InvalidArgument, naming the first cell that is no number, if the column is text.
void require_numeric(const Table& table, const Column& column, std::string_view role,
                     std::string_view advice = "");

/// What is odd about the table, in words: columns that are text because of a few cells, while at
/// least twice as many are numbers, or because of commas in numbers.
std::vector<std::string> warnings_of(const Table& table);

/// "numeric" or "text".
std::string to_string(ColumnType type);

/// Text from a file, in quotes and fit to be printed: at most 40 bytes, control characters escaped.
std::string in_quotes(std::string_view text);
/// Whether `name` is among `names`.
bool contains(const std::vector<std::string>& names, const std::string& name);
/// Names in quotes with commas between them, at most eight.
std::string list_names(const std::vector<std::string>& names);
/// The same, the names that are most like `name` first: but for upper and lower case, then by the
/// letters that differ.
std::string list_nearest(std::vector<std::string> names, std::string_view name);

}  // namespace cdt::data
