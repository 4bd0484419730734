/// The figures of runs.
#pragma once

#include <cdt/report/run_page.h>

namespace cdt::report {

/// What one run recorded; figures whose data are not there are left out.
std::vector<Figure> run_figures(const RunRecord& run);

/// The loss curves of several runs in one figure each, over steps and over time.
std::vector<Figure> overlay_figures(const std::vector<RunRecord>& runs);

}  // namespace cdt::report
