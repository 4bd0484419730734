/// Feedback for quadratic losses without the kernel's eigenvectors: the state is the error e [n].
///
/// A step is the least of ‖e − Θu‖² + μ uᵀΘu, u = (Θ + μI)⁻¹e, with μ = 1/(αc_L√(1 + q/p)). A mode
/// with step s = αc_L λ is left with 1/(1 + s√(1 + q/p)) of its error, as the controller leaves it
/// to first order where s is small, and with next to nothing where s is large. It needs one
/// Cholesky factorization, some fifteen times cheaper than the eigendecomposition; each rate
/// another.
///
/// With weights w the error is W^½(ŷ − y) and the kernel W^½ΘW^½: the same in their coordinates, so
/// that weights which are all equal change nothing but the size of the objective.
#pragma once

#include <cdt/core/error.h>
#include <cdt/loss/loss.h>
#include <cdt/train/feedback.h>

namespace cdt::train {

class RidgeFeedback : public Feedback {
 public:
  struct Options {
    loss::LossPtr loss = loss::mse();
    double q = 1.0;
    double p = 0.1;
    double rank_tolerance = 0;   ///< share of λ_max below which an eigenvalue is zero
    torch::Tensor weights = {};  ///< w [n], float64, positive; undefined: all 1
  };

  /// For a symmetric kernel, Θ or W^½ΘW^½ [n, n], and labels y [n], float64.
  RidgeFeedback(torch::Tensor kernel, torch::Tensor labels, const Options& options);

  /// The kernel's eigenvalues [n], ascending, from whoever has them.
  void know(torch::Tensor eigenvalues) { eigenvalues_ = std::move(eigenvalues); }

  void design(double rate) override;
  double rate() const override { return rate_; }
  double unit_rate() const override;
  /// The spectrum is not known: 1, the bound of every kernel.
  double closed_loop_radius() const override { return 1; }
  control::Certificate certificate(const torch::Tensor& theta = {}) const override;

  torch::Tensor state(const torch::Tensor& outputs) const override;
  Proposal propose(const torch::Tensor& state, double rate) const override;
  Steered steer(const torch::Tensor& outputs) override;
  /// ‖e‖²
  double merit(const torch::Tensor& state) const override;
  double distance(const torch::Tensor& state) const override;
  /// Decomposes the kernel: the one question that needs it, asked at a run's end.
  bool settled(const torch::Tensor& state, double rounding) const override;

  int64_t bytes() const override;
  void save(SavedState& state) const override;
  /// The kernel that `save` has written, as the constructor takes it.
  /// @throws InvalidArgument if the state has no symmetric kernel [n, n].
  static torch::Tensor saved_kernel(const SavedState& state, int64_t n, torch::Device device);

 private:
  double largest() const;
  /// Of the kernel, ascending; computed once, of one that nobody knows the modes of.
  const torch::Tensor& eigenvalues() const;
  /// (Θ + μI)⁻¹e
  torch::Tensor solve(const torch::Tensor& error) const;
  /// W^½v
  torch::Tensor scaled(const torch::Tensor& v) const { return scale_.defined() ? v * scale_ : v; }

  torch::Tensor kernel_;
  torch::Tensor labels_;
  torch::Tensor scale_;  ///< W^½ [n]; undefined: all 1
  Options options_;
  double gradient_factor_;  ///< c_L
  double rate_ = 0;
  double damping_ = 0;                 ///< μ
  torch::Tensor factor_;               ///< of Θ + μI, lower
  mutable torch::Tensor eigenvalues_;  ///< undefined: nobody has asked
  mutable double largest_ = -1;        ///< λ_max; −1: nobody has asked
  mutable torch::Tensor last_error_;   ///< of the last proposal; its solve is what a residual is of
};

}  // namespace cdt::train
