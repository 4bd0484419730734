/// Values formatted for the cells and sentences of a page.
#pragma once

#include <cdt/report/page.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cdt::report {

/// An unknown number; pages show a dash.
inline constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// Four significant digits; integers below ten millions in full.
std::string show(double value);
std::string show(const std::optional<int64_t>& value);
/// The text itself, or a dash if it is empty.
std::string show(const std::string& text);

/// A named value, as shown on a page.
struct NameValue {
  std::string name;
  std::string value;
};

/// One row per value; underscores in names become blanks.
Table name_value_table(const std::vector<NameValue>& values, std::string title);

}  // namespace cdt::report
