/// The summary of a training run, as text.
#pragma once

#include <cdt/run/train.h>

namespace cdt::cli {

/// The text that `train` prints at the end.
std::string summarize(const run::TrainedRun& run);

}  // namespace cdt::cli
