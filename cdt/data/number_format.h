/// Numbers as people write them: "$1,200.50", "18 %", "1.200,50 €", "12 kg". What all texts of a
/// column have in common decides how they are read.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::data {

/// How the numbers of a column are written.
struct NumberFormat {
  char decimal = '.';
  char group = 0;      ///< between thousands: , . ' or a blank (of any width); 0: nothing
  std::string prefix;  ///< a currency
  std::string suffix;  ///< a currency, % or a unit

  bool plain() const { return decimal == '.' && group == 0 && prefix.empty() && suffix.empty(); }
  bool operator==(const NumberFormat&) const = default;
  void fields(Fields& f);
};

/// A number as C and JSON write it; infinite ones included, NaN not.
std::optional<double> parse_plain_number(std::string_view text);

/// The number that a text is in this format, with or without what stands around it; then a plain
/// one. "true" and "false" are 1 and 0. Nothing for any other text.
std::optional<double> parse_number(std::string_view text, const NumberFormat& format);

/// What was found out about texts.
struct FormatSearch {
  std::optional<NumberFormat> format;  ///< in which each is a number, and which is not plain
  std::string doubt;  ///< of numbers that could be read in two ways: which, and what decides
};

/// Looks at different texts, none of them missing. `decimal`, a point or a comma, decides where
/// they leave it open; 0: not given. `comma_likely`: commas do not separate the fields of the
/// file, so that one may well be a decimal comma.
FormatSearch find_format(const std::vector<std::string>& texts, char decimal = 0,
                         bool comma_likely = false);

/// "point" or "comma", as the character.
/// @throws InvalidArgument on another name.
char parse_decimal(std::string_view name);

/// What is equal for texts of one value: "1", "1.0" and "true"; whole numbers of any length keep
/// all digits. Nothing if the text is neither a number nor a truth value.
std::optional<std::string> value_key(std::string_view text);

/// Whether the text is a whole number that float64 cannot hold.
bool is_rounded(std::string_view text, double value);

/// "per cent", "numbers with thousands separators", …: what a format is, for people.
std::string describe(const NumberFormat& format);

}  // namespace cdt::data
