/// Formatted numbers: "$1,200.50", "18 %", "1.200,50 €", "12 kg". All texts of a column together
/// determine its format.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::data {

/// Number format of a column.
struct NumberFormat {
  char decimal = '.';
  char group = 0;      ///< thousands separator: , . ' or a blank (of any width); 0: none
  std::string prefix;  ///< a currency or empty
  std::string suffix;  ///< a currency, %, a unit or empty

  bool plain() const { return decimal == '.' && group == 0 && prefix.empty() && suffix.empty(); }
  bool operator==(const NumberFormat&) const = default;
  void fields(Fields& f);
};

/// Parses a number in C or JSON notation; infinite values are accepted, NaN is not.
std::optional<double> parse_plain_number(std::string_view text);

/// Parses a number in this format, with or without prefix and suffix, else as a plain one. "true"
/// and "false" are 1 and 0. Empty if the text is neither.
std::optional<double> parse_number(std::string_view text, const NumberFormat& format);

/// Result of find_format.
struct FormatSearch {
  std::optional<NumberFormat> format;  ///< a format, not plain, in which each text is a number
  std::string doubt;                   ///< describes ambiguous numbers and what resolves them
};

/// Finds the format of distinct texts, none of them missing. `decimal`, a point or a comma,
/// resolves ambiguity; 0: unspecified. `comma_likely`: commas do not separate the file's fields, so
/// one is probably a decimal mark.
FormatSearch find_format(const std::vector<std::string>& texts, char decimal = 0,
                         bool comma_likely = false);

/// Converts "point" or "comma" to the character.
/// @throws InvalidArgument on another name.
char parse_decimal(std::string_view name);

/// A key equal for texts of one value: "1", "1.0" and "true"; integers of any length keep all
/// digits. Empty if the text is neither a number nor a truth value.
std::optional<std::string> value_key(std::string_view text);

/// Whether the text is an integer that float64 cannot represent.
bool is_rounded(std::string_view text, double value);

/// Description of a format for people: "per cent", "numbers with thousands separators", …
std::string describe(const NumberFormat& format);

}  // namespace cdt::data
