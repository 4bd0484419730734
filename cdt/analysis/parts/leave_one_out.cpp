#include <cdt/analysis/parts/leave_one_out.h>
#include <cdt/core/error.h>

namespace cdt::analysis {

using torch::Tensor;

namespace {

/// Decays in units of the mean eigenvalue, as powers of ten; and how many of them.
constexpr double kLeast = -6;
constexpr double kMost = 2;
constexpr int64_t kDecays = 17;

}  // namespace

LeaveOneOut leave_one_out(const dynamics::Modes& modes, const Tensor& labels,
                          const Tensor& outputs) {
  dynamics::require_complete(modes, "leaving one out");
  const int64_t n = modes.size();
  CDT_REQUIRE(n >= 2, "leaving one out needs two rows, got ", n);
  CDT_REQUIRE(labels.numel() == n && outputs.numel() == n, "leaving one out needs ", n,
              " labels and outputs, got ", labels.numel(), " and ", outputs.numel());
  LeaveOneOut best;
  const Tensor around =
      (labels - labels.mean()) * (static_cast<double>(n) / static_cast<double>(n - 1));
  best.mean = around.square().mean().item<double>();
  best.outputs = (labels - outputs).square().mean().item<double>();
  const double mean_eigenvalue = modes.values.mean().item<double>();
  if (!(mean_eigenvalue > 0)) {
    best.error = best.fitted = best.outputs;
    return best;
  }
  // With A = (Θ + τI)⁻¹ the residual of row i, left out, is (A(y − ŷ))ᵢ/Aᵢᵢ.
  const Tensor decays =
      torch::logspace(kLeast, kMost, kDecays, 10, labels.options()) * mean_eigenvalue;  // [g]
  const Tensor inverse = 1 / (modes.values.unsqueeze(1) + decays);                      // [n, g]
  const Tensor modal = modes.vectors.t().mv(labels - outputs).unsqueeze(1);             // [n, 1]
  const Tensor solved = modes.vectors.mm(inverse * modal);                              // [n, g]
  const Tensor diagonal = modes.vectors.square().mm(inverse);
  const Tensor errors = (solved / diagonal).square().mean(0);
  const int64_t chosen = errors.argmin().item<int64_t>();
  best.decay = decays[chosen].item<double>();
  best.error = errors[chosen].item<double>();
  best.fitted = (solved.select(1, chosen) * best.decay).square().mean().item<double>();
  best.freedom = (modes.values / (modes.values + best.decay)).sum().item<double>();
  return best;
}

}  // namespace cdt::analysis
