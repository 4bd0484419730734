/// The parts of a pre-flight; for the sources of this module.
#pragma once

#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>

namespace cdt::analysis {

/// Examines the loop of a plant: spectrum, stability, rates, and the paper's controller. `matrix`
/// is the plant's kernel, to measure the residual of the controller's equation; undefined: without.
void examine_loop(Preflight& found, const control::Plant& plant, const torch::Tensor& matrix = {});

/// A pre-flight with the settings of these options, at a rate chosen between these.
Preflight start_preflight(const PreflightOptions& options, double near, double anywhere);

/// Under class labels, and under other losses that are not quadratic (coordinates.cpp).
Preflight analyze_classes(const torch::Tensor& theta, const PreflightOptions& options);
Preflight analyze_curved(const torch::Tensor& theta, const PreflightOptions& options);

/// Whether training stands still, and why (paper App. equilibriums).
///
/// `gradient` g [n], float64; `gradient_scale` is a gradient that counts as large, c_L‖y‖ say:
/// below tol::kStationary of it g is zero. Reachable shares below tol::kUnreachableError are, too.
/// @throws InvalidArgument if a shape does not fit, an entry is not finite, or α < 0.
Equilibrium classify_equilibrium(const dynamics::Modes& modes, const torch::Tensor& gradient,
                                 double learning_rate, double gradient_scale,
                                 int64_t outputs_per_sample);

/// The errors of ŷ + Θ(Θ + τI)⁻¹(y − ŷ), the network's first outputs corrected by kernel
/// regression: exact, without solving the n smaller problems. For labels y and outputs ŷ [n],
/// float64, of one output a sample; `modes` must be complete.
/// @throws InvalidArgument if modes are missing or there are fewer than two rows.
LeaveOneOut leave_one_out(const dynamics::Modes& modes, const torch::Tensor& labels,
                          const torch::Tensor& outputs);

}  // namespace cdt::analysis
