/// results.json and figures.json, which a sweep leaves for its page and for other programs.
#pragma once

#include <cdt/report/sweep_page.h>

#include <filesystem>
#include <string>

namespace cdt::experiment {

/// From the text of results.json (docs/formats.md), without figures; `source` is its name for
/// messages.
/// @throws InvalidArgument if it has another format or version, has no rows, or a field is of
/// another type than it should be.
report::SweepRecord parse_results(const std::string& json, const std::string& source);

/// From results.json, and figures.json if it is there, of a sweep's folder.
/// @throws InvalidArgument likewise, and if a file cannot be read.
report::SweepRecord read_results(const std::filesystem::path& folder);

}  // namespace cdt::experiment
