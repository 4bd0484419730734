/// The page of one run, or of several beside each other.
#pragma once

#include <cdt/core/error.h>
#include <cdt/report/page.h>
#include <cdt/study/record.h>

namespace cdt::report {

/// Of what their records say. Whatever is empty is left out: a run may last still, have been
/// interrupted, have diverged, or have gone without analysis or validation.
/// @throws InvalidArgument if there is no run, or columns that belong together differ in length.
Page run_page(const std::vector<study::Record>& runs);

}  // namespace cdt::report
