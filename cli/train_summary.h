/// What a training run came to: in its run.json, and in words.
#pragma once

#include "cli/run_folder.h"

namespace cdt::cli {

/// The part "result" of run.json.
nlohmann::ordered_json describe_result(const train::TrainResult& result);

/// The part "errors": how far the network's predictions lie from the targets, in units of the file;
/// {"train", "validation"}, the latter null if no row validated.
nlohmann::ordered_json describe_errors(const Problem& problem);

/// The page that `train` ends with; `errors` as of describe_errors, null if training diverged.
std::string summarize(const Problem& problem, const TrainingOptions& training,
                      const train::TrainResult& result, const nlohmann::ordered_json& errors,
                      const RunFolder& folder);

}  // namespace cdt::cli
