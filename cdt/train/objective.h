/// The loss as the training loop needs it: its value, the seed of a backward pass, and how far
/// outputs are from where the labels want them.
#pragma once

#include <cdt/dynamics/loss_linearization.h>

#include <span>

namespace cdt::train {

/// What a forward pass tells of outputs; not finite where they are not.
struct Assessment {
  double loss = 0;    ///< L, against the true labels
  double misfit = 0;  ///< Σ w e²; for the cross entropy the smoothed loss above its minimum
  /// What training lowers, but for weight decay: the loss with its weights w, or the smoothed one.
  double objective = 0;
};

/// Outputs ŷ and labels y are [b, n_L], float64; weights w [b·n_L], of the cross entropy the same
/// for all outputs of a sample; undefined: all 1.
class Objective {
 public:
  /// `smoothing` ε: the cross entropy is trained on (1 − ε)y + ε/C.
  Objective(dynamics::Loss loss, double smoothing) : loss_(loss), smoothing_(smoothing) {}

  dynamics::Loss loss() const { return loss_; }
  double smoothing() const { return smoothing_; }

  Assessment assess(const torch::Tensor& outputs, const torch::Tensor& labels,
                    const torch::Tensor& weights = {}) const;
  /// What there is to read for it, [k] float64, of which the host makes the rest: so numbers of
  /// many passes can wait on the device and be read together.
  torch::Tensor sums(const torch::Tensor& outputs, const torch::Tensor& labels,
                     const torch::Tensor& weights = {}) const;
  /// From those sums, of labels [samples, outputs].
  Assessment assessment(std::span<const double> sums, int64_t samples, int64_t outputs) const;
  /// (1 − ε)y + ε/C, what the cross entropy is trained on.
  torch::Tensor smoothed(const torch::Tensor& labels) const;
  /// ∂L/∂ŷ [b, n_L] of the smoothed loss, without weights. At a kink of the absolute error it is 0.
  torch::Tensor gradient(const torch::Tensor& outputs, const torch::Tensor& labels) const;
  /// The smoothed loss [] with the graph of `outputs`, which may have another dtype.
  torch::Tensor graph(const torch::Tensor& outputs, const torch::Tensor& labels) const;
  /// No less than ‖∂²L/∂ŷ²‖ anywhere: c_L for quadratic losses, 1/(2b) for the cross entropy, 0 for
  /// the absolute error.
  double curvature(int64_t samples, int64_t outputs) const;
  /// What squared residuals (residuals.h) are a model of, up to a constant: Σ w e², of the cross
  /// entropy twice the sum of smoothed losses above their minima; and c, with which ½c of it is the
  /// objective: c_L for quadratic losses, 1/b for the cross entropy.
  double squares(const torch::Tensor& outputs, const torch::Tensor& labels,
                 const torch::Tensor& weights = {}) const;
  double square_factor(int64_t samples, int64_t outputs) const;

 private:
  dynamics::Loss loss_;
  double smoothing_;
};

}  // namespace cdt::train
