/// The options of a run, under the name that they have beside its folder.
#pragma once

#include <cdt/study/run_options.h>

namespace cdt::run {

using Options = study::RunOptions;

}  // namespace cdt::run
