/// Feedback of a guarded run that only wants to arrive, for more rows than a kernel can have, for
/// classes and with weights: the least of ‖e + SᵀJδ‖² + μ‖δ‖² with μ = 1/(αc√(1 + q/p)), the damped
/// Gauss-Newton step of its objective, in one of the forms of ridge.h. c is
/// its scale; of numbers without weights it is the step of RidgeFeedback. The state
/// is the outputs [b, n_L].
///
/// It is of the parameters that it was made at alone: J is kept, or taken anew from them, and no
/// kernel that could serve the next ones is formed.
#pragma once

#include <cdt/core/error.h>
#include <cdt/train/feedback.h>
#include <cdt/train/forms/ridge.h>

#include <functional>

namespace cdt::train {

class FormFeedback : public Feedback {
 public:
  using Make = std::function<std::unique_ptr<RidgeForm>()>;

  /// `make` linearizes at the present parameters; labels y [b, n_L] and weights [b·n_L], float64,
  /// the latter undefined if all are 1; of several ranks those of this one, and so is the state.
  FormFeedback(Make make, loss::LossPtr loss, torch::Tensor labels, torch::Tensor weights, double q,
               double p, std::shared_ptr<const Ranks> ranks = alone());

  void design(double rate) override;
  double rate() const override { return rate_; }
  double unit_rate() const override { return unit_rate_; }
  double closed_loop_radius() const override { return 1; }
  control::Certificate certificate(const torch::Tensor& theta = {}) const override;

  torch::Tensor state(const torch::Tensor& outputs) const override { return outputs; }
  /// Of the state at the parameters that it was made at. The promise is that of the residuals.
  Proposal propose(const torch::Tensor& state, double rate) const override;
  /// @throws InvalidArgument: a gain for other outputs is what it does not have.
  Steered steer(const torch::Tensor& outputs) override;
  /// Assessment::squares
  double merit(const torch::Tensor& state) const override;
  double distance(const torch::Tensor& state) const override;
  /// Whether even the step of the default rate promises next to nothing: at most the share
  /// tol::kUnreachableError of the merit. The spectrum that would tell more is not known.
  bool settled(const torch::Tensor& state, double rounding) const override;
  bool lasts() const override { return false; }
  bool complete() const override { return complete_; }

  int64_t bytes() const override { return 0; }
  void save(SavedState&) const override {}

 private:
  /// At damping of a rate; where rounding leaves no positive definite matrix, at a stronger one.
  RidgeStep step_at(double rate) const;
  /// By how much residuals' squares fall if they become these.
  double promise(const torch::Tensor& residuals) const;

  Make make_;
  loss::LossPtr loss_;
  torch::Tensor labels_;
  torch::Tensor weights_;
  std::shared_ptr<const Ranks> ranks_;
  double square_factor_;  ///< c
  double boost_;          ///< √(1 + q/p)
  double unit_rate_ = 1;
  double rate_ = 0;
  mutable std::unique_ptr<RidgeForm> form_;
  mutable bool used_ = false;  ///< parameters may have been written to since
  mutable bool complete_ = true;
  double largest_ = 0;          ///< eigenvalue of the kernel of residuals, or about
  mutable double damping_ = 0;  ///< μ of the last step
  mutable RidgeStep last_;      ///< which was this one
};

}  // namespace cdt::train
