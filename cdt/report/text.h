/// Values as the cells and sentences of a page.
#pragma once

#include <cdt/report/page.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace cdt::report {

/// A number that is not known; pages show a dash.
inline constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// Four digits, whole numbers below ten millions in full.
std::string show(double value);
std::string show(const std::optional<int64_t>& value);
/// The text itself, or a dash for none.
std::string show(const std::string& text);

/// A value by its name, as a page shows it.
struct NameValue {
  std::string name;
  std::string value;
};

/// One row each; underscores in names become blanks.
Table name_value_table(const std::vector<NameValue>& values, std::string title);

}  // namespace cdt::report
