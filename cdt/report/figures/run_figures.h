/// Figures of runs.
#pragma once

#include <cdt/report/figures/run_values.h>

namespace cdt::report {

/// Figures of one run; omits those without data.
std::vector<Figure> run_figures(const Record& run);

/// Loss curves of several runs in one figure, over steps and over time.
std::vector<Figure> overlay_figures(const std::vector<Record>& runs);

}  // namespace cdt::report
