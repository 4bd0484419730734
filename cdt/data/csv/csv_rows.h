/// The grammar of CSV: bytes → rows of fields, without columns or types.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::data {

/// A field in the bytes, without quotes and surrounding blanks.
struct CsvCell {
  std::string_view bytes;
  bool quoted = false;   ///< may span several lines
  bool doubled = false;  ///< contains quotes, doubled in the bytes

  /// The field's text; uses `scratch` if it differs from the bytes.
  std::string_view text(std::string& scratch) const { return doubled ? undoubled(scratch) : bytes; }
  /// Line ends within it.
  int64_t lines() const { return quoted ? count_lines() : 0; }

 private:
  std::string_view undoubled(std::string& scratch) const;
  int64_t count_lines() const;
};

/// Splits a row into fields by RFC 4180: a field that contains a quote must be quoted, and the
/// quote doubled. Blanks around fields are ignored.
class CsvRows {
 public:
  /// Result of scanning a row.
  enum class Status {
    kRow,         ///< a row
    kBlank,       ///< a blank line
    kIncomplete,  ///< the row extends beyond the bytes
    kStrayQuote,  ///< a quote in an unquoted field, or text after a closing quote
    kOpenQuote,   ///< the last field's quote is not closed
    kTooMany,     ///< more than kMostFields
  };
  /// A row with more fields indicates a file of another kind.
  static constexpr size_t kMostFields = 1'000'000;

  explicit CsvRows(char delimiter);

  /// Scans the row that begins at `place` in `bytes` and moves `place` past it, or to the error.
  /// `last`: these are the last bytes.
  Status next(std::string_view bytes, bool last, size_t& place);
  /// Fields of the row: views into its bytes.
  std::span<const CsvCell> cells() const { return {cells_.data(), count_}; }

 private:
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != delimiter_; }

  char delimiter_;
  std::array<bool, 256> ends_plain_{};  ///< bytes that end an unquoted field
  std::vector<CsvCell> cells_;          ///< as many as the longest row so far has
  size_t count_ = 0;                    ///< number of fields of the current row
};

/// The delimiter of the first non-blank line: a comma, unless it has none but has `;`, tabs or `|`,
/// only one of these. Ignores quoted fields. Empty if the line extends beyond the bytes; `last`:
/// these are the last bytes.
std::optional<char> detect_delimiter(std::string_view bytes, bool last);

}  // namespace cdt::data
