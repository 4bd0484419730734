/// The page of one run, or of several side by side.
#pragma once

#include <cdt/core/error.h>
#include <cdt/report/page.h>
#include <cdt/study/record.h>

namespace cdt::report {

/// Builds the page from run records. Omits what they lack: a run may be unfinished, interrupted,
/// diverged, or without analysis or validation.
/// @throws InvalidArgument if there is no run, or columns that belong together differ in length.
Page run_page(const std::vector<study::Record>& runs);

}  // namespace cdt::report
