/// Runs of a sweep that learn to predict; for the sources of this folder.
#pragma once

#include <cdt/experiment/store.h>
#include <cdt/study/predictions.h>

#include <functional>
#include <optional>

namespace cdt::experiment {

std::vector<TargetError> to_target_errors(const study::Errors& errors);

/// The run that `cdt train --goal predict` makes of the training rows, judged by the others; empty
/// if it was told to stop.
std::optional<CaseRun> learn_to_predict(const Plan& plan, const Case& what,
                                        const data::Table& table, const study::Problem& compared,
                                        torch::Device device, const std::function<bool()>& stop);

}  // namespace cdt::experiment
