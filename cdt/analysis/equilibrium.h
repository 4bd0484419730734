/// Whether training stands still, and why (paper App. equilibriums).
#pragma once

#include <cdt/core/error.h>
#include <cdt/dynamics/modes.h>

#include <string>
#include <vector>

namespace cdt::analysis {

/// ŷ(k + 1) = ŷ(k) means αΘg = 0, g = ∂L/∂ŷ. The paper's four cases, the most telling first.
struct Equilibrium {
  enum class Kind {
    kNone,         ///< the next step moves the outputs
    kLossMinimum,  ///< g = 0: nothing left to learn
    kFrozen,       ///< α = 0
    kNullKernel,   ///< Θ = 0: no parameter moves any output
    kNullSpace,    ///< g ≠ 0 lies in the kernel's null space: what is left cannot be learned
  };
  Kind kind = Kind::kNone;
  double movement = 0;        ///< α‖Θg‖: how far the next step moves the outputs
  std::vector<int64_t> rows;  ///< samples that carry the gradient, ascending; of kNullSpace alone
};

std::string to_string(Equilibrium::Kind kind);

/// `gradient` g [n], float64; `gradient_scale` is a gradient that counts as large, c_L‖y‖ say:
/// below tol::kStationary of it g is zero. Reachable shares below tol::kUnreachableError are, too.
/// @throws InvalidArgument if a shape does not fit, an entry is not finite, or α < 0.
Equilibrium classify_equilibrium(const dynamics::Modes& modes, const torch::Tensor& gradient,
                                 double learning_rate, double gradient_scale,
                                 int64_t outputs_per_sample);

}  // namespace cdt::analysis
