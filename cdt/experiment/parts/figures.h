/// Figures of a sweep: the paper's, and ours. To add one, write a function in figures.cpp and call
/// it in draw_figures.
#pragma once

#include <cdt/experiment/summary.h>

namespace cdt::experiment {

std::vector<report::Figure> draw_figures(const Plan& plan, const std::vector<Row>& rows,
                                         const std::vector<CaseRun>& runs);

}  // namespace cdt::experiment
