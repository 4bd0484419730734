/// The pre-flight report under the cross entropy: what the linearized loop in logits says.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/preflight.h"

namespace cdt::cli {

struct ClassFindings {
  std::string text;
  nlohmann::ordered_json json;
};

/// Of a problem with classes. The kernel counts in the C − 1 coordinates of each sample that the
/// softmax sees, scaled by the mean Hessian H of the smoothed loss from here to its equilibrium:
/// H^½ΘH^½, whose step is symmetric (docs/theory.md, appendix D).
ClassFindings analyze_classes(const Problem& problem, const AnalysisOptions& options, bool quiet);

}  // namespace cdt::cli
