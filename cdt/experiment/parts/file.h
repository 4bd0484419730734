/// Experiments as files: the tree of a TOML or JSON text; experiments/ames.toml says how one looks.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/experiment/plan.h>

namespace cdt::experiment {

/// A plan, but for the table that it is run on.
/// @throws InvalidArgument, with the key, if a value is missing or is not what it should be.
Plan read_plan(const JsonValue& experiment);

}  // namespace cdt::experiment
