/// What a training run came to, in words.
#pragma once

#include <cdt/run/train.h>

namespace cdt::cli {

/// The page that `train` ends with.
std::string summarize(const run::TrainedRun& run);

}  // namespace cdt::cli
