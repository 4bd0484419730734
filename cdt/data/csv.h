/// Reads comma-separated files: quotes, CRLF, a byte order mark, missing values, columns typed by
/// their content.
///
/// The grammar is that of RFC 4180, checked strictly (a field that contains a quote must be quoted,
/// and the quote doubled). Blanks around an unquoted field are ignored; blank lines are skipped.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

namespace cdt::data {

struct CsvOptions {
  /// Field delimiter. By default a comma, unless the first line has none but has `;`, tabs or `|`,
  /// only one of these.
  std::optional<char> delimiter;
  /// Whether the first line names the columns. Otherwise they are named column1, column2, …
  bool header = true;
  /// Cells that are missing values, besides empty ones; matched exactly.
  std::vector<std::string> missing_marks{"NA", "?", "nan", "NaN", "NAN", "-nan"};
  /// Types of columns, instead of those found from the content.
  std::map<std::string, ColumnType> types;
  /// Number formats of numeric columns that are not plain.
  std::map<std::string, NumberFormat> formats;
  /// Decimal mark, a point or a comma, for columns whose values are ambiguous; 0: unspecified.
  char decimal = 0;
  /// Order of dates for columns whose values are ambiguous.
  std::optional<DateOrder> dates;
  /// Columns to leave out.
  std::vector<std::string> drop;
  /// If not empty: only these columns are kept; the file may lack some of them.
  std::vector<std::string> keep;
  /// Called repeatedly with the bytes read and the size of the file; never for a pipe.
  std::function<void(int64_t done, int64_t total)> progress;
};

/// Maximum length of a row in bytes. Longer rows mean an open quote or a file that is not a table.
inline constexpr size_t kLongestCsvRow = size_t{1} << 26;

/// Reads a CSV file, plain or gzipped, in one pass, so pipes work too. Besides the table it needs
/// memory for one row, or a quarter of a megabyte.
///
/// A column is numeric if each of its cells is missing or a number: with sign, decimal point and
/// exponent, or all in one of the formats of cdt/data/number_format.h: "$1,000", "18 %", "5 kg".
/// Integers that float64 rounding would make equal are text. An empty name in the header becomes
/// columnN.
///
/// @throws InvalidArgument, naming file and line, if the file cannot be read, is empty or has no
///   rows after its header; a row has too few or too many fields; a quote is not closed or is
///   inside an unquoted field; there is a NUL byte; text is not UTF-8; two columns share a name; a
///   cell of a column forced to be numeric is not a number; a number is infinite; `types` or `drop`
///   name a missing column; or a row is longer than kLongestCsvRow or has more than a million
///   fields.
Table read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

/// Reads in parts as rows arrive, say from a pipe: calls `take` repeatedly with the rows available,
/// at least one. Needs memory for one part only. `options` must give the type of every kept column,
/// since no part can determine it. The parts have no checksum.
void read_csv_in_parts(const std::filesystem::path& path, const CsvOptions& options,
                       const std::function<void(const Table&)>& take);

/// read_csv for bytes in memory; messages call them `source`.
Table parse_csv(std::string_view bytes, const std::string& source, const CsvOptions& options = {});

/// A text as a CSV field, quoted if necessary. With `for_spreadsheets`, a text that spreadsheets
/// take for a formula (it begins with = + - @, a tab or CR, and is not a number) gets an apostrophe
/// in front.
std::string csv_field(const std::string& text, bool for_spreadsheets = false);

/// Non-empty fields of a line of CSV: the notation for lists of columns whose names may contain
/// commas. csv_field writes an item.
/// @throws InvalidArgument, naming `source`, if a quote is not closed or is inside an unquoted
///   item.
std::vector<std::string> csv_list(std::string_view line, const std::string& source);

}  // namespace cdt::data
