/// Whether the folder of a sweep holds what was written to it.
#pragma once

#include <cdt/core/error.h>
#include <cdt/experiment/store.h>
#include <cdt/run/parts/verify.h>

namespace cdt::experiment {

/// Reads sweep.json, every run and the results, and compares the checksums that they carry. A sweep
/// that lasts or was interrupted may have no results yet.
/// @throws InvalidArgument if the folder holds no sweep.
run::FolderCheck verify_sweep(const std::filesystem::path& folder);

}  // namespace cdt::experiment
