/// The grammar of CSV alone: bytes → rows of fields. Knows neither columns nor types.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::data {

/// A field as it stands in the bytes, without the quotes and the blanks around it.
struct CsvCell {
  std::string_view bytes;
  bool quoted = false;   ///< so it may have several lines
  bool doubled = false;  ///< has quotes, which stand twice in the bytes

  /// What the field says; in `scratch` where that differs from the bytes.
  std::string_view text(std::string& scratch) const { return doubled ? undoubled(scratch) : bytes; }
  /// Line ends within it.
  int64_t lines() const { return quoted ? count_lines() : 0; }

 private:
  std::string_view undoubled(std::string& scratch) const;
  int64_t count_lines() const;
};

/// Splits a row into fields, by RFC 4180: a quote inside a field must stand in a quoted field,
/// doubled. Blanks around fields do not belong to them.
class CsvRows {
 public:
  /// How the scan of a row ended.
  enum class Status {
    kRow,         ///< with a row
    kBlank,       ///< with a line that has none
    kIncomplete,  ///< it goes on beyond the bytes
    kStrayQuote,  ///< at a quote in a plain field, or at what follows a closing one
    kOpenQuote,   ///< the last field's quote has no partner
    kTooMany,     ///< beyond kMostFields
  };
  /// More than any table has: such a row is one of another kind of file.
  static constexpr size_t kMostFields = 1'000'000;

  explicit CsvRows(char delimiter);

  /// Scans the row that begins at `place` in `bytes` and moves `place` behind it; where there is
  /// none, to what is wrong with it. `last`: nothing comes after these bytes.
  Status next(std::string_view bytes, bool last, size_t& place);
  /// Of the row: views into its bytes.
  std::span<const CsvCell> cells() const { return {cells_.data(), count_}; }

 private:
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && c != delimiter_; }

  char delimiter_;
  std::array<bool, 256> ends_plain_{};  ///< bytes at which a field without quotes ends
  std::vector<CsvCell> cells_;          ///< of the longest row so far
  size_t count_ = 0;                    ///< of those, the present row's
};

/// The delimiter that the first line (blank ones aside) shows: a comma, unless it has none and has
/// `;`, tabs or `|`, one kind alone. Quoted fields do not count. Nothing if the line goes on beyond
/// the bytes; `last`: nothing comes after them.
std::optional<char> detect_delimiter(std::string_view bytes, bool last);

}  // namespace cdt::data
