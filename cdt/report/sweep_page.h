/// The page of a sweep: what its results.json and figures.json hold, with published values beside.
#pragma once

#include <cdt/report/page.h>

#include <nlohmann/json_fwd.hpp>

namespace cdt::report {

/// `results` is the content of results.json (docs/formats.md), `source` its name for messages.
/// @throws InvalidArgument if it has another format or version, has no rows, or a field is of
/// another type than it should be.
Page sweep_page(const nlohmann::ordered_json& results, const std::vector<Figure>& figures,
                const std::string& source = "results.json");

}  // namespace cdt::report
