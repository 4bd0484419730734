/// Comma-separated files: quotes, CRLF, a byte order mark, missing values, columns typed by their
/// content.
///
/// The grammar is that of RFC 4180, checked strictly (a quote inside a field must stand in a quoted
/// field, doubled). Blanks around a field that is not quoted do not belong to it; blank lines are
/// skipped.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/table.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>

namespace cdt::data {

struct CsvOptions {
  /// Between fields. Without one the first line decides: a comma, unless it has none and has `;`,
  /// tabs or `|`, one kind alone.
  std::optional<char> delimiter;
  /// Whether the first line names the columns. Otherwise they are column1, column2, …
  bool header = true;
  /// Cells that are missing values, besides the empty one; matched to the letter.
  std::vector<std::string> missing_marks{"NA", "?", "nan", "NaN", "NAN", "-nan"};
  /// Types that the content shall not decide.
  std::map<std::string, ColumnType> types;
  /// How numbers are written that could not be read without it.
  std::map<std::string, NumberFormat> formats;
  /// What stands before decimals where the values of a column leave it open, a point or a comma; 0:
  /// not given.
  char decimal = 0;
  /// The order of dates whose values leave it open.
  std::optional<DateOrder> dates;
  /// Columns to leave out.
  std::vector<std::string> drop;
  /// If not empty: leave out all others, and do not mind if the file lacks some of these.
  std::vector<std::string> keep;
  /// Bytes read and bytes of the file, again and again; never of a pipe.
  std::function<void(int64_t done, int64_t total)> progress;
};

/// Longest row that is read, in bytes: beyond it a quote is open, or it is no table.
inline constexpr size_t kLongestCsvRow = size_t{1} << 26;

/// Reads a CSV file, plain or gzipped, in one pass, so that a pipe will do as well. Beyond the
/// table it takes the memory of a row, or of a quarter of a megabyte.
///
/// A column is numeric if each of its cells is a number or missing: with a sign, a decimal point
/// and an exponent, or all in one format of people (cdt/data/number_format.h): "$1,000", "18 %", "5
/// kg". Whole numbers that would be equal once float64 rounds them are text. An empty name in the
/// header becomes columnN.
///
/// @throws InvalidArgument, naming file and line, if the file cannot be read, is empty or has no
///   rows beyond its header; a row has too few or too many fields; a quote is not closed or stands
///   inside a plain field; there is a NUL byte; text is not UTF-8; two columns share a name; a cell
///   of a column forced to be numeric is no number; a number is infinite; `types` or `drop` name
///   a column that is not there; or a row is longer than kLongestCsvRow or has more than a million
///   fields.
Table read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

/// The same in parts, as rows come, say from a pipe: `take` gets the rows that are there, one at
/// least, again and again. Memory is that of a part. `options` must give the type of every column
/// that is kept: no part can decide it. The parts have no checksum.
void read_csv_in_parts(const std::filesystem::path& path, const CsvOptions& options,
                       const std::function<void(const Table&)>& take);

/// read_csv of bytes in memory; `source` stands for the file in messages.
Table parse_csv(std::string_view bytes, const std::string& source, const CsvOptions& options = {});

/// A field as a file wants it: quoted where it must be. `for_spreadsheets`: what those take for a
/// formula (it begins with = + - @, a tab or CR, and is no number) has an apostrophe in front.
std::string csv_field(const std::string& text, bool for_spreadsheets = false);

/// The fields of a line of CSV, empty ones left out: how a list of columns is written, so that a
/// name may have commas. csv_field makes the items of one.
/// @throws InvalidArgument, naming `source`, if a quote is not closed or stands inside a plain
/// item.
std::vector<std::string> csv_list(std::string_view line, const std::string& source);

}  // namespace cdt::data
