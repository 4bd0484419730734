/// Experiments as files: the parsed tree of a TOML or JSON text; experiments/ames.toml is an
/// example.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/experiment/plan.h>

namespace cdt::experiment {

/// A plan without the table that it is run on.
/// @throws InvalidArgument, with the key, if a value is missing or invalid.
Plan read_plan(const JsonValue& experiment);

}  // namespace cdt::experiment
