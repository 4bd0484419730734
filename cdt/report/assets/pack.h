/// Encodes lists of numbers as short text, so that the half a million numbers of a sweep fit a page
/// below 2 MB.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace cdt::report {

/// [digits, lowest, text]. Numbers are rounded to `digits` significant digits. All numbers with
/// that many digits, from m·10^lowest on, are ranked (0 is 0, negative ones count down), and `text`
/// holds the differences between the ranks of neighbours, which are small for smooth curves. A
/// difference d has the code 2d, or 2|d| + 1 if negative, in groups of five bits, lowest first;
/// each group is a letter of base 64, plus 32 if another one follows. '-' is a non-finite number. A
/// list of integers has digits 0, and its ranks are the numbers themselves, so it is exact.
///
/// assets/data.js decodes it.
nlohmann::ordered_json pack(const std::vector<double>& values, int digits);

}  // namespace cdt::report
