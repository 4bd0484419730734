/// Lists of numbers as short text: a sweep's half a million numbers must fit into a page below 2
/// MB.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace cdt::report {

/// [digits, lowest, text]. Every number is rounded to so many significant digits. All numbers with
/// that many digits, from m·10^lowest on, are counted through (0 is 0, negative ones count down),
/// and `text` holds the differences between the ranks of neighbours: a smooth curve gives small
/// ones. A difference d is the code 2d, or 2|d| + 1 if negative, in groups of five bits, lowest
/// first; each group is a letter of base 64, plus 32 if another one follows. '-' is a number that
/// is not finite. A list of whole numbers has digits 0, and its ranks are the numbers themselves:
/// exact.
///
/// assets/data.js reads it.
nlohmann::ordered_json pack(const std::vector<double>& values, int digits);

}  // namespace cdt::report
