/// The figures of runs.
#pragma once

#include <cdt/report/figures/run_values.h>

namespace cdt::report {

/// What one run recorded; figures whose data are not there are left out.
std::vector<Figure> run_figures(const Record& run);

/// The loss curves of several runs in one figure each, over steps and over time.
std::vector<Figure> overlay_figures(const std::vector<Record>& runs);

}  // namespace cdt::report
