#include <cdt/report/assets/pack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace cdt::report {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr double kLargestWhole = 9007199254740992.0 / 4;  // the code of a difference still fits 2⁵³

/// A decimal number, ±mantissa·10^exponent; the mantissa has all its digits.
struct Decimal {
  bool negative = false;
  int64_t mantissa = 0;
  int exponent = 0;
};

Decimal round_to(double value, int digits) {
  const std::string text = fmt::format("{:.{}e}", std::abs(value), digits - 1);  // d.ddde±xx
  const size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  std::erase(mantissa, '.');
  Decimal decimal{std::signbit(value), std::stoll(mantissa), 0};
  decimal.exponent = std::stoi(text.substr(e + 1)) - (digits - 1);
  return decimal;
}

void append(std::string& text, int64_t difference) {
  uint64_t code = static_cast<uint64_t>(std::abs(difference)) * 2 + (difference < 0 ? 1 : 0);
  do {
    const uint64_t group = code % 32;
    code /= 32;
    text += kLetters[group + (code > 0 ? 32 : 0)];
  } while (code > 0);
}

}  // namespace

nlohmann::ordered_json pack(const std::vector<double>& values, int digits) {
  const auto whole = [](double value) {
    return !std::isfinite(value) || (value == std::floor(value) && std::abs(value) < kLargestWhole);
  };
  const bool exact = std::all_of(values.begin(), values.end(), whole);
  std::vector<std::optional<Decimal>> decimals;
  int lowest = 0;
  if (!exact) {
    std::optional<int> least;
    for (const double value : values) {
      auto& decimal = decimals.emplace_back();
      if (!std::isfinite(value)) continue;
      decimal = round_to(value, digits);
      if (decimal->mantissa != 0) least = std::min(least.value_or(400), decimal->exponent);
    }
    lowest = least.value_or(0);
  }
  int64_t first = 1;
  for (int i = 1; i < digits; ++i) first *= 10;
  std::string text;
  int64_t last = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      text += '-';
      continue;
    }
    int64_t rank = 0;
    if (exact) {
      rank = static_cast<int64_t>(values[i]);
    } else if (decimals[i]->mantissa != 0) {
      rank =
          int64_t{decimals[i]->exponent - lowest} * 9 * first + decimals[i]->mantissa - first + 1;
      if (decimals[i]->negative) rank = -rank;
    }
    append(text, rank - last);
    last = rank;
  }
  return nlohmann::ordered_json::array({exact ? 0 : digits, lowest, text});
}

}  // namespace cdt::report
