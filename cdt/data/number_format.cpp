#include "cdt/data/number_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "cdt/core/error.h"
#include "cdt/core/text/text.h"
#include "cdt/data/csv/column_builder.h"

namespace cdt::data {
namespace {

constexpr std::string_view kDigits = "0123456789";
/// Blanks of all widths used as thousands separators: ASCII, U+00A0, U+2009, U+202F.
constexpr std::array<std::string_view, 4> kBlanks{" ", "\xc2\xa0", "\xe2\x80\x89", "\xe2\x80\xaf"};
constexpr std::string_view kMinus = "\xe2\x88\x92";  // U+2212
constexpr size_t kLongestUnit = 24;
/// Two distinct values with a unit may as well be two categories: "2wd", "4wd".
constexpr size_t kFewestWithUnit = 3;

constexpr std::array<std::string_view, 46> kCurrencies{
    "$",   "€",   "£",   "¥",   "₹",   "₽", "₩",   "₺",   "₴",   "₫",   "₪",   "₦",
    "฿",   "₱",   "R$",  "US$", "A$",  "C$",  "kr",  "zł",  "Kč",  "Ft",  "Rs",  "Rs.",
    "Fr.", "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK",
    "PLN", "CZK", "HUF", "CNY", "INR", "BRL", "MXN", "ZAR", "RUB", "TRY"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_currency(std::string_view text) { return std::ranges::count(kCurrencies, text) > 0; }

/// Length of a blank at the front; 0 if there is none.
size_t blank_at(std::string_view text) {
  for (const std::string_view blank : kBlanks) {
    if (text.starts_with(blank)) return blank.size();
  }
  return 0;
}

std::string_view stripped(std::string_view text) {
  while (const size_t blank = blank_at(text)) text.remove_prefix(blank);
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view blank : kBlanks) {
      if (!text.ends_with(blank)) continue;
      text.remove_suffix(blank.size());
      more = true;
    }
  }
  return text;
}

bool take_sign(std::string_view& text, bool& negative) {
  for (const std::string_view minus : {std::string_view("-"), kMinus}) {
    if (!text.starts_with(minus)) continue;
    text.remove_prefix(minus.size());
    negative = true;
    return true;
  }
  if (!text.starts_with("+")) return false;
  text.remove_prefix(1);
  return true;
}

/// Whether it is % or a unit: letters and characters that occur in units, as in kg, km/h, m², µg/l,
/// sq ft, m2.
bool is_unit(std::string_view text) {
  if (text.empty() || text.size() > kLongestUnit) return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           static_cast<unsigned char>(c) >= 0x80;
  };
  if (!letter(text[0]) && text[0] != '%' && text[0] != '"' && text[0] != '\'') return false;
  for (size_t i = 1; i < text.size(); ++i) {
    const bool power = (text[i] == '2' || text[i] == '3') && i + 1 == text.size();
    if (!letter(text[i]) && !power && std::string_view("%/*^. '\"").find(text[i]) == text.npos)
      return false;
  }
  return true;
}

/// A number and its affixes: digits with separators, of which one kind of blank.
struct Parts {
  bool negative = false;
  std::string prefix, suffix;
  std::string core;      ///< digits and , . ' and blanks
  std::string exponent;  ///< "e5"; empty: none
};

std::optional<Parts> take_apart(std::string_view text) {
  Parts parts;
  text = stripped(text);
  if (text.size() > 2 && text.front() == '(' && text.back() == ')') {  // negative, as in accounting
    parts.negative = true;
    text = stripped(text.substr(1, text.size() - 2));
  }
  bool sign = take_sign(text, parts.negative) || parts.negative;
  const size_t first = text.find_first_of(kDigits);
  if (first == text.npos) return std::nullopt;
  size_t begin = first;
  if (begin > 0 && (text[begin - 1] == '.' || text[begin - 1] == ',')) {
    // ".5", but not in "Rs.5"
    const std::string_view before = stripped(text.substr(0, begin));
    if (!is_currency(before)) --begin;
  }
  std::string_view prefix = stripped(text.substr(0, begin));
  for (const std::string_view minus : {std::string_view("-"), kMinus}) {
    if (sign || !prefix.ends_with(minus)) continue;
    parts.negative = sign = true;
    prefix = stripped(prefix.substr(0, prefix.size() - minus.size()));
  }
  if (!prefix.empty() && !is_currency(prefix)) return std::nullopt;
  parts.prefix = prefix;
  text.remove_prefix(begin);
  const auto digit_after = [&](size_t length) {
    return text.size() > length && is_digit(text[length]);
  };
  while (!text.empty()) {
    const size_t blank = blank_at(text);
    if (is_digit(text[0]) ||
        (std::string_view(".,'").find(text[0]) != std::string_view::npos && digit_after(1))) {
      parts.core += text[0];
      text.remove_prefix(1);
    } else if (blank > 0 && digit_after(blank)) {
      parts.core += ' ';
      text.remove_prefix(blank);
    } else {
      break;
    }
  }
  if (text.size() > 1 && (text[0] == 'e' || text[0] == 'E')) {
    size_t end = text[1] == '-' || text[1] == '+' ? 2 : 1;
    const size_t from = end;
    while (end < text.size() && is_digit(text[end])) ++end;
    if (end > from) {
      parts.exponent = text.substr(0, end);
      text.remove_prefix(end);
    }
  }
  text = stripped(text);
  if (!text.empty() && !is_currency(text) && !is_unit(text)) return std::nullopt;
  parts.suffix = text;
  return parts;
}

/// Whether these are digits only, or digits in groups of three, the first of one to three without a
/// leading zero; in Indian notation groups before the last have two.
bool grouped(std::string_view digits, char group) {
  const size_t at = group == 0 ? digits.npos : digits.find(group);
  const auto all_digits = [](std::string_view text) {
    return text.find_first_not_of(kDigits) == text.npos;
  };
  if (at == digits.npos) return all_digits(digits);
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= digits.size();) {
    const size_t end = std::min(digits.find(group, begin), digits.size());
    parts.push_back(digits.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::string_view front = parts.front();
  if (front.empty() || front.size() > 3 || front[0] == '0') return false;
  if (!std::ranges::all_of(parts, all_digits) || parts.back().size() != 3) return false;
  const bool by_three =
      std::all_of(parts.begin() + 1, parts.end(), [](auto p) { return p.size() == 3; });
  const bool by_two =
      group == ',' && front.size() <= 2 &&
      std::all_of(parts.begin() + 1, parts.end() - 1, [](auto p) { return p.size() == 2; });
  return by_three || by_two;
}

/// The digits of a core in C notation; empty if it does not have this format.
std::optional<std::string> to_plain(const std::string& core, char decimal, char group) {
  const size_t point = core.find(decimal);
  const std::string_view all = core;
  const std::string_view whole = all.substr(0, point);
  const std::string_view fraction = point == core.npos ? std::string_view() : all.substr(point + 1);
  if (!grouped(whole, group) || fraction.find_first_not_of(kDigits) != fraction.npos) {
    return std::nullopt;
  }
  std::string text;
  for (const char c : whole) {
    if (is_digit(c)) text += c;
  }
  if (text.empty()) text = "0";
  if (!fraction.empty()) text.append(".").append(fraction);
  return text;
}

std::optional<double> value_of(const Parts& parts, char decimal, char group) {
  const auto plain = to_plain(parts.core, decimal, group);
  if (!plain) return std::nullopt;
  const auto value = parse_plain_number(*plain + parts.exponent);
  if (!value) return std::nullopt;
  return parts.negative ? -*value : *value;
}

/// Whether a mark is ambiguous: it occurs once, with three digits after it, and nothing decides.
bool is_open(const std::vector<Parts>& all, char mark) {
  return std::ranges::all_of(all, [&](const Parts& parts) {
    const size_t at = parts.core.find(mark);
    if (at == std::string::npos) return parts.core.size() <= 3;  // longer ones would be grouped
    return parts.core.find_first_not_of(kDigits, at + 1) == std::string::npos &&
           parts.core.size() == at + 4 && at <= 3 && at > 0 && parts.core[0] != '0';
  });
}

/// Digits of an integer, without redundant zeros; empty for other numbers.
std::optional<std::string> whole_digits(std::string_view text) {
  bool negative = false;
  take_sign(text, negative);
  const size_t point = text.find('.');
  if (point != text.npos && text.find_first_not_of('0', point + 1) != text.npos)
    return std::nullopt;
  text = text.substr(0, point);
  if (text.empty() || text.find_first_not_of(kDigits) != text.npos) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size() - 1));
  return (negative && text != "0" ? "-" : "") + std::string(text);
}

std::optional<bool> truth_value(std::string_view text) {
  const auto is = [&](std::string_view word) {
    return std::ranges::equal(text, word, [](char a, char b) { return (a | 0x20) == b; });
  };
  if (is("true")) return true;
  if (is("false")) return false;
  return std::nullopt;
}

}  // namespace

std::optional<double> parse_plain_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  // from_chars does not distinguish overflow from underflow.
  if (error == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);
  }
  if (std::isnan(value)) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text, const NumberFormat& format) {
  if (const auto truth = truth_value(text)) return *truth ? 1 : 0;
  if (!format.plain()) {
    const auto parts = take_apart(text);
    const auto fits = [](const std::string& own, const std::string& known) {
      return own.empty() || own == known;
    };
    if (parts && fits(parts->prefix, format.prefix) && fits(parts->suffix, format.suffix)) {
      if (const auto value = value_of(*parts, format.decimal, format.group)) return value;
    }
  }
  return parse_plain_number(text);
}

FormatSearch find_format(const std::vector<std::string>& texts, char decimal, bool comma_likely) {
  FormatSearch found;
  std::vector<Parts> all;
  for (const std::string& text : texts) {
    auto parts = take_apart(text);
    if (!parts) return found;
    if (!all.empty() && (parts->prefix != all[0].prefix || parts->suffix != all[0].suffix)) {
      return found;
    }
    all.push_back(std::move(*parts));
  }
  if (all.empty()) return found;
  NumberFormat format;
  format.prefix = all[0].prefix;
  format.suffix = all[0].suffix;
  const bool currency = is_currency(format.prefix) || is_currency(format.suffix);
  const bool unit = !format.suffix.empty() && format.suffix != "%" && !currency;
  if (unit && texts.size() < kFewestWithUnit) return found;
  const auto fit = [&](char point, char group) {
    return std::ranges::all_of(
        all, [&](const Parts& parts) { return value_of(parts, point, group).has_value(); });
  };
  const auto take = [&](char point, char group) {
    format.decimal = point;
    format.group = group;
    if (!format.plain()) found.format = format;
    return found;
  };
  const auto has = [&](char mark) {
    return std::ranges::any_of(
        all, [&](const Parts& parts) { return parts.core.find(mark) != std::string::npos; });
  };
  if (has(',') && !has('.') && is_open(all, ',')) {
    if (decimal == 0 && comma_likely && !currency) {
      found.doubt =
          fmt::format("{} may be {} or {}: --decimal point, or comma, decides", texts[0],
                      value_of(all[0], '.', ',').value_or(0), value_of(all[0], ',', 0).value_or(0));
      return found;
    }
    return decimal == ',' && !currency ? take(',', 0) : take('.', ',');
  }
  // Prices do not have three decimals: the point of "1.200 €" separates thousands.
  if (has('.') && !has(',') && is_open(all, '.') && (currency || decimal == ',')) {
    return take(',', '.');
  }
  for (const char group : {'\0', '.'}) {
    if (decimal == ',' && has(',') && fit(',', group)) return take(',', group);
  }
  for (const auto& [point, group] : {std::pair{'.', '\0'},
                                     {'.', ','},
                                     {',', '\0'},
                                     {',', '.'},
                                     {'.', ' '},
                                     {',', ' '},
                                     {'.', '\''},
                                     {',', '\''}}) {
    if (fit(point, group)) return take(point, group);
  }
  return found;
}

std::optional<std::string> surroundings(std::string_view text) {
  const auto parts = take_apart(text);
  if (!parts) return std::nullopt;
  return parts->prefix + std::string(1, '\0') + parts->suffix;
}

char parse_decimal(std::string_view name) {
  CDT_REQUIRE(name == "point" || name == "comma", "decimal must be point or comma, got '", name,
              "'");
  return name == "comma" ? ',' : '.';
}

std::optional<std::string> value_key(std::string_view text) {
  text = stripped(text);
  if (const auto truth = truth_value(text)) return *truth ? "1" : "0";
  if (text.empty()) return std::nullopt;
  if (auto digits = whole_digits(text)) return digits;
  const auto value = parse_plain_number(text);
  if (!value || std::isinf(*value)) return std::nullopt;
  if (*value == std::floor(*value) && std::abs(*value) < 9007199254740992.0) {
    return fmt::format("{:.0f}", *value == 0 ? 0.0 : *value);
  }
  return fmt::format("{}", *value);
}

bool is_rounded(std::string_view text, double value) {
  constexpr size_t kHeldDigits = 15;
  if (text.size() <= kHeldDigits || std::abs(value) < 9007199254740992.0) return false;
  const auto digits = whole_digits(text);
  return digits && std::isfinite(value) && fmt::format("{:.0f}", value) != *digits;
}

std::string describe(const NumberFormat& format) {
  std::string words = format.suffix == "%" ? "per cent" : "numbers";
  if (!format.prefix.empty()) words += " in " + printable_name(format.prefix);
  if (!format.suffix.empty() && format.suffix != "%")
    words += " in " + printable_name(format.suffix);
  if (format.decimal == ',') words += " with decimal commas";
  if (format.group != 0) {
    words += format.decimal == ',' ? " and" : " with";
    words += format.group == ' ' ? " blanks between thousands"
                                 : fmt::format(" {} between thousands", format.group);
  }
  return words;
}

}  // namespace cdt::data
