/// Figures of a sweep: the paper's, and ours. A new one is a function in figures.cpp that
/// draw_figures calls.
#pragma once

#include <cdt/experiment/summary.h>

namespace cdt::experiment {

std::vector<report::Figure> draw_figures(const Plan& plan, const std::vector<Row>& rows,
                                         const std::vector<CaseRun>& runs);

}  // namespace cdt::experiment
