/// The closed loop of a gain matrix: its eigenvalues, and how far the kernel may grow.
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/control/plant.h>

namespace cdt::control {

/// Largest number of errors for which a certificate probes a gain and computes its eigenvalues.
inline constexpr int64_t kMostProbed = 2000;
/// The same if the caller did not request all numbers.
inline constexpr int64_t kMostUnasked = 300;

struct GainLoop {
  Known radius;
  Known kernel_margin;
  Known overshoot_margin;
  torch::Tensor factors{};  ///< |1 − μ|, in descending order
};

/// The loop of v = Gx, from the eigenvalues μ of SG on the reachable subspace: the loop has 1 − μ
/// there, and |1 − δμ| < 1 while δ < 2 Re μ/|μ|². O(n³).
GainLoop loop_of_gain(const Plant& plant, const torch::Tensor& G);
/// Certificate::spectrum of a gain matrix.
torch::Tensor spectrum_of_gain(const Plant& plant, const GainLoop& loop);

}  // namespace cdt::control
