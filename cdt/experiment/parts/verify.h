/// Verifies that a sweep's folder holds what was written to it.
#pragma once

#include <cdt/core/error.h>
#include <cdt/experiment/store.h>
#include <cdt/run/parts/verify.h>

namespace cdt::experiment {

/// Reads sweep.json, every run and the results, and compares their checksums. An unfinished or
/// interrupted sweep may have no results.
/// @throws InvalidArgument if the folder holds no sweep.
run::FolderCheck verify_sweep(const std::filesystem::path& folder);

}  // namespace cdt::experiment
