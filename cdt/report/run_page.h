/// The page of one run, or of several beside each other.
#pragma once

#include <cdt/report/page.h>

#include <filesystem>

namespace cdt::report {

/// From run.json, history.csv, predictions.csv and spectrum.csv of each folder. All but the first
/// may be absent: a run may last still, have been interrupted, have diverged, or have gone without
/// analysis or validation.
/// @throws InvalidArgument if a folder is no run, or a file in it is damaged or of another format.
Page run_page(const std::vector<std::filesystem::path>& folders);

}  // namespace cdt::report
