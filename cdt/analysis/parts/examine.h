/// The part of a pre-flight that every loss and every kernel has; for the sources of this module.
#pragma once

#include <cdt/analysis/preflight.h>

namespace cdt::analysis {

/// Examines the loop of a plant: spectrum, stability, rates, and the paper's controller. `matrix`
/// is the plant's kernel, to measure the residual of the controller's equation; undefined: without.
void examine_loop(Preflight& found, const control::Plant& plant, const torch::Tensor& matrix = {});

/// A pre-flight with the settings of these options, at a rate chosen between these.
Preflight start_preflight(const PreflightOptions& options, double near, double anywhere);

/// Under class labels, and under other losses that are not quadratic (coordinates.cpp).
Preflight analyze_classes(const torch::Tensor& theta, const PreflightOptions& options);
Preflight analyze_curved(const torch::Tensor& theta, const PreflightOptions& options);

}  // namespace cdt::analysis
