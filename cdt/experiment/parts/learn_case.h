/// Runs of a sweep that predict; internal to this folder.
#pragma once

#include <cdt/experiment/store.h>
#include <cdt/study/predictions.h>

#include <functional>
#include <optional>

namespace cdt::experiment {

std::vector<TargetError> to_target_errors(const study::Errors& errors);

/// Does what `cdt train --goal predict` does on the training rows, and evaluates on the others;
/// empty if it was stopped.
std::optional<CaseRun> learn_to_predict(const Plan& plan, const Case& what,
                                        const data::Table& table, const study::Problem& compared,
                                        torch::Device device, const std::function<bool()>& stop);

}  // namespace cdt::experiment
