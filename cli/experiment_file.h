/// Experiments of `cdt reproduce`, which are TOML files: experiments/ames.toml says how one looks.
#pragma once

#include <cdt/core/io/json.h>
#include <cdt/experiment/plan.h>

#include "experiments/claims.h"

namespace cdt::cli {

/// A sweep, and what has been published of it.
struct Experiment {
  experiment::Plan plan;  ///< but for the table that it is run on
  paper::Published published;
};

/// @throws InvalidArgument, with the key, if a value is missing or is not what it should be.
Experiment read_experiment(const JsonValue& content);

}  // namespace cdt::cli
