/// The figures of runs.
#pragma once

#include <cdt/report/page.h>
#include <cdt/report/run_files.h>

#include <optional>

namespace cdt::report {

/// What one run recorded; figures whose data are not there are left out.
std::vector<Figure> run_figures(const RunFiles& run);

/// The loss curves of several runs in one figure each, over steps and over time.
std::vector<Figure> overlay_figures(const std::vector<RunFiles>& runs);

/// How often each class was taken for which, where the targets of the run are classes.
std::vector<Table> confusion_tables(const RunFiles& run);

}  // namespace cdt::report
