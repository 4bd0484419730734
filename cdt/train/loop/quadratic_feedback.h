/// Feedback for quadratic losses, in the kernel's eigenbasis: the state is m = Vᵀe [n].
#pragma once

#include <cdt/core/error.h>
#include <cdt/loss/loss.h>
#include <cdt/train/feedback.h>

#include <optional>

namespace cdt::train {

/// Weights of the control problem. With `weights`, Q = q·diag(weights) and the gain comes from the
/// general Riccati solver; without, from the closed form.
struct FeedbackOptions {
  loss::LossPtr loss = loss::mse();
  double q = 1.0;
  double p = 0.1;
  double shape = 0;
  bool steers = false;                   ///< `steer` will be called: its matrix counts as memory
  std::optional<torch::Tensor> weights;  ///< [n], float64
};

class QuadraticFeedback : public ModalFeedback {
 public:
  /// For labels y [n], float64.
  /// @throws InvalidArgument as the controllers do; also if there are weights and a shape.
  QuadraticFeedback(dynamics::Modes modes, torch::Tensor labels, FeedbackOptions options);

  void design(double rate) override;
  double unit_rate() const override;
  torch::Tensor state(const torch::Tensor& outputs) const override;
  Proposal propose(const torch::Tensor& state, double rate) const override;
  Steered steer(const torch::Tensor& outputs) override;
  torch::Tensor matrix() override;
  bool steers_blind() const override { return true; }
  /// ‖m‖² on the reachable part; with weights the cost to go mᵀPm, because the weighted optimum may
  /// let unimportant errors rise for a while.
  double merit(const torch::Tensor& state) const override;
  /// With weights the loop contracts so only in the long run.
  double distance(const torch::Tensor& state) const override;
  bool settled(const torch::Tensor& state, double rounding) const override;

  double gradient_factor() const override { return gradient_factor_; }
  torch::Tensor moved_state(const torch::Tensor& outputs) const override;
  torch::Tensor seed_of(const torch::Tensor& modal) const override;
  torch::Tensor steer_modes(const torch::Tensor& modal) const override;
  double loss(const torch::Tensor& state) const override;

  int64_t bytes() const override;

 private:
  torch::Tensor labels_;
  FeedbackOptions options_;
  double gradient_factor_;  ///< c_L
  torch::Tensor step_;      ///< s [n]
  torch::Tensor steering_;  ///< 1 + k [n], or VᵀGV [n, n] with weights
  torch::Tensor cost_;      ///< VᵀPV [n, n] with weights
  torch::Tensor matrix_;    ///< c_L G [n, n], once somebody has asked for it
};

}  // namespace cdt::train
