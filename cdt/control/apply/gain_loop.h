/// The closed loop of a gain matrix: its eigenvalues, and how far the kernel may grow.
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/control/plant.h>

namespace cdt::control {

/// Errors of a plant whose gain is found by probing it, or whose eigenvalues are computed.
inline constexpr int64_t kMostProbed = 2000;
/// The same where nobody has asked for all that there is to know.
inline constexpr int64_t kMostUnasked = 300;

struct GainLoop {
  Known radius;
  Known kernel_margin;
  Known overshoot_margin;
  torch::Tensor factors{};  ///< |1 − μ|, descending
};

/// The loop of v = Gx, by the eigenvalues μ of SG on what labels can reach: the loop has 1 − μ
/// there, and |1 − δμ| < 1 while δ < 2 Re μ/|μ|². O(n³).
GainLoop loop_of_gain(const Plant& plant, const torch::Tensor& G);
/// As Certificate::spectrum has it.
torch::Tensor spectrum_of_gain(const Plant& plant, const GainLoop& loop);

}  // namespace cdt::control
