/// CSV files: rows (cdt/data/csv/csv_rows.h) are passed to the columns as they are read, in one
/// pass over the bytes.
#include "cdt/data/csv.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <system_error>

#include "cdt/core/error.h"
#include "cdt/core/io/checksum.h"
#include "cdt/core/io/inflate.h"
#include "cdt/core/text/text.h"
#include "cdt/data/csv/column_builder.h"
#include "cdt/data/csv/csv_rows.h"

namespace cdt::data {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

void require_delimiter(char delimiter) {
  CDT_REQUIRE(static_cast<unsigned char>(delimiter) < 0x80 && delimiter != ' ' &&
                  std::strchr("\"\r\n", delimiter) == nullptr,
              "expected a delimiter such as , or ; got ", in_quotes({&delimiter, 1}));
}

/// Builds a table from bytes that arrive in pieces.
class Reader {
 public:
  Reader(std::string source, const CsvOptions& options)
      : source_(std::move(source)), options_(options), marks_(options.missing_marks) {
    if (!options.delimiter) return;
    require_delimiter(*options.delimiter);
    rows_.emplace(*options.delimiter);
    table_.delimiter = *options.delimiter;
  }

  /// Processes complete rows at the front of `bytes` and returns their length. The rest is the
  /// beginning of a row, to be passed again with more bytes: `known` of these bytes were passed
  /// before. `last`: there are no more.
  size_t take(std::string_view bytes, size_t known, bool last) {
    unsummed_ = bytes.substr(known);
    const size_t used = take_rows(bytes, last);
    sum_.add(unsummed_);
    return used;
  }

  /// Announces the approximate number of rows.
  void expect(double rows) {
    for (const auto& builder : builders_) {
      if (builder) builder->reserve(static_cast<size_t>(rows));
    }
    table_.lines.reserve(static_cast<size_t>(rows));
  }

  Table finish() {
    CDT_REQUIRE(ready_, source_, ": expected ", options_.header ? "a header" : "rows",
                ", but the file is empty");
    CDT_REQUIRE(!table_.lines.empty(), source_, ": expected rows, but there is only the header");
    table_.source = source_;
    for (size_t i = 0; i < names_.size(); ++i) {
      const bool dropped = contains(options_.drop, names_[i]);
      if (!builders_[i] && !dropped) table_.left_out.push_back(names_[i]);
    }
    for (auto& builder : builders_) {
      if (builder) table_.columns.push_back(builder->finish());
    }
    return std::move(table_);
  }

  int64_t rows() const { return table_.rows(); }
  /// Checksum of all bytes.
  std::string checksum() const { return sum_.text(); }
  /// Returns the rows so far and begins a new table.
  Table take_part() {
    Table part = finish();
    table_ = {};
    table_.delimiter = part.delimiter;
    make_builders();
    return part;
  }

 private:
  size_t take_rows(std::string_view bytes, bool last) {
    size_t place = 0;
    if (!begun_ && bytes.starts_with(kByteOrderMark)) place = kByteOrderMark.size();
    begun_ = true;
    const size_t nul = std::min(bytes.find('\0'), bytes.size());
    const std::string_view text = bytes.substr(0, nul);
    last = last && nul == bytes.size();
    if (!rows_) find_delimiter(text.substr(place), last);
    while (place < text.size()) {
      size_t next = place;
      const auto status = rows_ ? rows_->next(text, last, next) : CsvRows::Status::kIncomplete;
      const bool open =
          status == CsvRows::Status::kIncomplete || status == CsvRows::Status::kOpenQuote;
      CDT_REQUIRE((open ? text.size() : next) - place <= kLongestCsvRow, source_, ":", line_,
                  ": expected rows of at most ", kLongestCsvRow >> 20,
                  " MiB, got a longer one that begins here; is a quote not closed?");
      if (status == CsvRows::Status::kIncomplete) break;
      if (status != CsvRows::Status::kRow && status != CsvRows::Status::kBlank) {
        refuse(status, text.substr(place, next - place));
      }
      if (status == CsvRows::Status::kRow) add_row();
      ++line_;
      place = next;
    }
    CDT_REQUIRE(nul == bytes.size(), source_, ":", line_ + lines_in(text.substr(place)),
                ": expected text, got a NUL byte; is this UTF-16 or a binary file?");
    return place;
  }

  static int64_t lines_in(std::string_view text) {
    return std::count(text.begin(), text.end(), '\n');
  }

  void find_delimiter(std::string_view text, bool last) {
    const auto found = detect_delimiter(text, last);
    if (!found) return;
    rows_.emplace(*found);
    table_.delimiter = *found;
  }

  /// `begun`: the row up to the error.
  [[noreturn]] void refuse(CsvRows::Status status, std::string_view begun) const {
    const std::string place = c10::str(source_, ":", line_ + lines_in(begun));
    if (status == CsvRows::Status::kOpenQuote) {
      throw InvalidArgument(c10::str(
          place, ": expected a closing quote, but the field that begins in this line has none"));
    }
    CDT_REQUIRE(status != CsvRows::Status::kTooMany, place, ": expected at most ",
                CsvRows::kMostFields, " fields in a row, but there are more");
    throw InvalidArgument(
        c10::str(place,
                 ": expected quotes only around a field, and doubled inside it, got a single "
                 "one (or an earlier quote is not closed)"));
  }

  /// Adds the scanned row, which begins at line_.
  void add_row() {
    const auto cells = rows_->cells();
    const int64_t line = line_;
    if (!ready_) {
      set_up();
      if (options_.header) {
        for (const CsvCell& cell : cells) line_ += cell.lines();
        return;
      }
    }
    CDT_REQUIRE(cells.size() == builders_.size(), source_, ":", line, ": expected ",
                builders_.size(), " fields, as in the first line, got ", cells.size(),
                delimiter_hint());
    for (size_t i = 0; i < cells.size(); ++i) {
      if (builders_[i]) builders_[i]->add(cells[i].text(scratch_), line_);
      line_ += cells[i].lines();
      // Interleaved with parsing, since neither depends on the other.
      if (unsummed_.size() >= Checksum::kSome) sum_.add_some(unsummed_);
    }
    table_.lines.push_back(line);
  }

  /// Sets up the columns from the first row.
  void set_up() {
    std::vector<std::string>& names = names_;
    std::map<std::string, size_t> seen;
    for (size_t i = 0; i < rows_->cells().size(); ++i) {
      std::string name(rows_->cells()[i].text(scratch_));
      CDT_REQUIRE(!options_.header || is_utf8(name), source_, ":", line_,
                  ": expected UTF-8 column names, but column ", i + 1,
                  " has other bytes; convert the file, for example: iconv -f latin1 -t utf-8");
      if (!options_.header || name.empty()) name = "column" + std::to_string(i + 1);
      const auto [it, fresh] = seen.emplace(name, i + 1);
      CDT_REQUIRE(fresh, source_, ":", line_, ": expected different column names, but columns ",
                  it->second, " and ", i + 1, " are both ", in_quotes(name));
      names.push_back(std::move(name));
    }
    const auto require_known = [&](const std::string& name) {
      if (seen.count(name) == 0 && !contains(options_.keep, name)) {
        refuse_column(source_, name, names, table_.delimiter);
      }
    };
    for (const auto& [name, type] : options_.types) require_known(name);
    for (const std::string& name : options_.drop) require_known(name);
    const auto kept = [&](const std::string& name) { return seen.count(name) > 0; };
    if (!options_.keep.empty() && std::none_of(options_.keep.begin(), options_.keep.end(), kept)) {
      refuse_column(source_, options_.keep.front(), names, table_.delimiter);
    }
    make_builders();
    ready_ = true;
  }

  void make_builders() {
    builders_.clear();
    for (const std::string& name : names_) {
      const bool wanted = !contains(options_.drop, name) &&
                          (options_.keep.empty() || contains(options_.keep, name));
      builders_.push_back(
          wanted ? std::make_unique<ColumnBuilder>(name, reading_of(name), source_, marks_)
                 : nullptr);
    }
  }

  ColumnBuilder::Reading reading_of(const std::string& name) const {
    ColumnBuilder::Reading reading;
    const auto type = options_.types.find(name);
    if (type != options_.types.end()) reading.type = type->second;
    const auto format = options_.formats.find(name);
    if (format != options_.formats.end()) reading.format = format->second;
    reading.decimal = options_.decimal;
    reading.comma_likely = table_.delimiter != ',';
    reading.dates = options_.dates;
    return reading;
  }

  /// A hint if the delimiter was not given and is unusual, or a row does not contain it.
  std::string delimiter_hint() const {
    if (options_.delimiter ||
        (table_.delimiter == ',' && builders_.size() > 1 && rows_->cells().size() > 1)) {
      return "";
    }
    return c10::str("; fields end at ", in_quotes({&table_.delimiter, 1}),
                    ", by the first line: is the delimiter another?");
  }

  std::string source_;
  const CsvOptions& options_;
  MissingMarks marks_;
  std::optional<CsvRows> rows_;  ///< set once the delimiter is known
  Table table_;
  std::vector<std::unique_ptr<ColumnBuilder>> builders_;  ///< null for columns left out
  std::vector<std::string> names_;                        ///< all columns of the file
  std::string scratch_;
  Checksum sum_;
  std::string_view unsummed_;  ///< bytes not yet added to the checksum
  bool begun_ = false;
  bool ready_ = false;  ///< whether the columns are known
  int64_t line_ = 1;    ///< where the next row begins
};

bool looks_like_formula(const std::string& text) {
  if (text.empty() || std::strchr("=+-@\t\r", text[0]) == nullptr) return false;
  const std::string_view digits = std::string_view(text).substr(text[0] == '+' ? 1 : 0);
  double value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  return stop != end || error == std::errc::invalid_argument;
}

/// Adds an apostrophe before each part that a spreadsheet would execute: the whole text, and the
/// text after a character at which some spreadsheets, depending on locale, begin a new cell.
std::string without_formulas(const std::string& text) {
  constexpr std::string_view kSeparators = ";|\t\r\n";
  std::string safe = looks_like_formula(text) ? "'" : "";
  for (size_t i = 0; i < text.size(); ++i) {
    safe += text[i];
    if (kSeparators.find(text[i]) == std::string_view::npos) continue;
    const size_t end = text.find_first_of(kSeparators, i + 1);
    if (looks_like_formula(text.substr(i + 1, end - i - 1))) safe += '\'';
  }
  return safe;
}

}  // namespace

namespace {

/// Reads a file into the reader. Calls `after` after each piece, with the number of bytes processed
/// and the size of the file, 0 for a pipe.
template <class After>
void read_through(const std::string& file, Reader& reader, const CsvOptions& options,
                  const After& after) {
  const auto refuse = [&] {
    throw InvalidArgument(c10::str("cannot read ", file, ": ",
                                   std::generic_category().message(errno),
                                   file == "-" ? "; standard input is called /dev/stdin" : ""));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rbe"),
                                                               &std::fclose);
  if (!stream) refuse();
  // An incomplete row stays at the front of the window, which grows for long rows. These are
  // scanned again when a line ends, or when they have doubled in length, since a pipe returns a few
  // bytes at a time.
  std::string window(kChunk, '\0');
  size_t left = 0, known = 0, awaited = 0;
  int64_t total = 0, done = 0;
  std::error_code none;
  const bool regular = std::filesystem::is_regular_file(file, none);
  if (regular) total = static_cast<int64_t>(std::filesystem::file_size(file, none));
  if (none) total = 0;
  // Compressed files are decompressed while reading.
  std::string packed;
  std::optional<Inflater> unpacked;
  const auto read_some = [&](char* to, size_t room) {
    const ssize_t count = ::read(fileno(stream.get()), to, room);
    if (count > 0) done += count;
    return count;
  };
  const auto read_packed = [&]() -> std::string_view {
    for (;;) {
      const ssize_t count = read_some(packed.data(), packed.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse();
      return std::string_view(packed).substr(0, static_cast<size_t>(count));
    }
  };
  bool begun = false;
  for (bool last = false; !last;) {
    if (window.size() - left < kChunk) window.resize(2 * window.size());
    // Not fread, which waits until the window is full.
    char* const to = window.data() + left;
    const size_t room = window.size() - left;
    ssize_t count = unpacked ? static_cast<ssize_t>(unpacked->read(to, room)) : read_some(to, room);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse();
    if (!std::exchange(begun, true) && is_gzip({to, static_cast<size_t>(count)})) {
      packed.assign(to, static_cast<size_t>(count));
      unpacked.emplace(
          [&, first = true]() mutable -> std::string_view {
            if (std::exchange(first, false)) return packed;
            if (packed.size() < kChunk) packed.resize(kChunk);
            return read_packed();
          },
          Inflater::Packing::kGzip, file);
      count = static_cast<ssize_t>(unpacked->read(to, room));
    }
    last = count == 0;
    const std::string_view bytes(window.data(), left + static_cast<size_t>(count));
    left = bytes.size();
    if (!last && left < awaited && bytes.back() != '\n') continue;
    const size_t used = reader.take(bytes, known, last);
    left -= used;
    known = left;
    awaited = left > kChunk ? std::min<size_t>(2 * left, kLongestCsvRow) : 0;
    std::memmove(window.data(), window.data() + used, left);
    after(used, unpacked ? 0 : total);
    if (options.progress && total > 0) options.progress(std::min(done, total), total);
  }
}

}  // namespace

Table read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  Reader reader(path.string(), options);
  bool first = true;
  read_through(path.string(), reader, options, [&](size_t used, int64_t total) {
    // Estimates the number of rows from the first piece, with a margin for shorter rows.
    if (first && used > 0 && total > 0) {
      reader.expect(1.02 * static_cast<double>(reader.rows()) * static_cast<double>(total) /
                    static_cast<double>(used));
    }
    first = false;
  });
  Table table = reader.finish();
  table.checksum = reader.checksum();
  return table;
}

void read_csv_in_parts(const std::filesystem::path& path, const CsvOptions& options,
                       const std::function<void(const Table&)>& take) {
  Reader reader(path.string(), options);
  bool some = false;
  read_through(path.string(), reader, options, [&](size_t, int64_t) {
    if (reader.rows() == 0) return;
    take(reader.take_part());
    some = true;
  });
  if (!some) static_cast<void>(reader.finish());  // throws if there are no rows
}

Table parse_csv(std::string_view bytes, const std::string& source, const CsvOptions& options) {
  Reader reader(source, options);
  reader.take(bytes, /*known=*/0, /*last=*/true);
  Table table = reader.finish();
  table.checksum = reader.checksum();
  return table;
}

std::string csv_field(const std::string& text, bool for_spreadsheets) {
  if (for_spreadsheets) return csv_field(without_formulas(text));
  if (text.find_first_of(",\"\r\n\t ") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::vector<std::string> csv_list(std::string_view line, const std::string& source) {
  std::vector<std::string> items;
  if (line.empty()) return items;
  CsvRows rows(',');
  size_t place = 0;
  const CsvRows::Status status = rows.next(line, /*last=*/true, place);
  const bool whole = status == CsvRows::Status::kRow || status == CsvRows::Status::kBlank;
  CDT_REQUIRE(whole && place == line.size(), source, ": expected names with commas between, one ",
              "that has a comma or a quote in double quotes (its own doubled), got ",
              in_quotes(line));
  std::string scratch;
  for (const CsvCell& cell : rows.cells()) {
    if (!cell.bytes.empty()) items.emplace_back(cell.text(scratch));
  }
  return items;
}

}  // namespace cdt::data
