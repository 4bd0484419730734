/// Options of a run, under this module's name.
#pragma once

#include <cdt/study/run_options.h>

namespace cdt::run {

using Options = study::RunOptions;

}  // namespace cdt::run
