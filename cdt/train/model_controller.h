/// Controls a training loop that you write: labels that keep plain gradient descent
/// stable at its rate, for one model and its training samples.
///
/// A design holds near the parameters that it was made for, and training moves them. So each step
/// is compared with what the design expected of it (`drift`), and where that is too far off, the
/// controller is designed anew. Cross entropy does so by default: its
/// curvature, and with it the design, changes within a few steps.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/control/cross_entropy.h>
#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/loss/loss.h>

#include <memory>
#include <optional>
#include <string>

namespace cdt::train {

struct ModelControllerOptions {
  double learning_rate = 0.1;        ///< of the loop
  loss::LossPtr loss = loss::mse();  ///< of the loop; quadratic, or the cross entropy
  double q = 1.0;                    ///< weight on errors
  double p = 0.1;                    ///< weight on label augments
  /// For a quadratic loss, instead of qI and pI: [n, n], or diagonals [n].
  std::optional<torch::Tensor> Q;
  std::optional<torch::Tensor> R;
  /// For a quadratic loss, instead of q, p, Q and R: your own controller, a gain, a function
  /// (control/controller.h).
  control::ControllerFactory controller{};
  /// ε of the cross entropy, and of no other loss. Default: control::kUsualSmoothing.
  std::optional<double> smoothing;
  /// `augment` designs anew where `drift` exceeds this. Default: kUsualDrift for the cross entropy;
  /// for quadratic losses only `refresh` does, as in the paper. Infinite: never.
  std::optional<double> refresh_above;
  int64_t memory_bytes = int64_t{2} << 30;  ///< for the kernel

  static constexpr double kUsualDrift = 0.5;
};

class ModelController {
 public:
  /// Designs the first controller. `x` and `y` as in TrainData: all samples that the loop trains
  /// on.
  /// @throws InvalidArgument if they do not fit the model or the loss, a rate or weight is not
  /// positive, or Q, R, smoothing are given for a loss that has none.
  /// @throws NumericalError if no controller can be designed.
  ModelController(kernel::Model model, const torch::Tensor& x, const torch::Tensor& y,
                  const ModelControllerOptions& options);

  /// The labels for this step, detached, shaped like y_hat: the model's outputs on all of x. Once a
  /// step.
  /// @throws InvalidArgument if y_hat has another size.
  /// @throws NumericalError if it is not finite: the loop has diverged. The message says why it may
  /// have.
  torch::Tensor augment(const torch::Tensor& y_hat);
  /// Designs anew, for the parameters as they are now.
  void refresh();

  /// How far the outputs at the last `augment` were from where the design had expected the step
  /// before to bring them, as a share of that step. Towards 1: design anew. Rounding is no drift.
  /// None before the second `augment`.
  std::optional<double> drift() const;
  /// What the last `augment` found wrong with the loop, if it did: that each of ten steps in a row
  /// needed a new design, so it is another loop than promised. Else empty.
  const std::string& warning() const { return warning_; }

  double learning_rate() const { return options_.learning_rate; }
  /// For schedules. Designs anew.
  void set_learning_rate(double rate);
  double closed_loop_radius() const;
  /// What the design in use promises, on the linearization that it was made for.
  control::Certificate certificate() const;
  /// K [n, n] with y_u = −K(ŷ − y). Under cross entropy H + K, in its coordinates.
  torch::Tensor gain() const;
  const torch::Tensor& kernel() const { return theta_; }   ///< Θ [n, n] of the design
  const torch::Tensor& labels() const { return labels_; }  ///< y [r, n_L], float64
  const ModelControllerOptions& options() const { return options_; }
  int64_t refreshes() const { return refreshes_; }  ///< designs after the first

  /// For a quadratic loss in x = ŷ − y; for classes in ζ (control/cross_entropy.h).
  const control::Controller& controller() const { return *controller_; }

 private:
  struct Look {
    torch::Tensor outputs;  ///< [r, n_L], float64
    torch::Tensor labels;   ///< what the step was taken against
    torch::Tensor theta;
  };

  torch::Tensor outputs_of(const torch::Tensor& y_hat) const;
  torch::Tensor steered(const torch::Tensor& y_hat) const;
  double refresh_above() const;
  void renew_if_off();
  std::string is_it_so() const;

  kernel::Model model_;
  ModelControllerOptions options_;
  torch::Tensor x_;
  torch::Tensor labels_;
  torch::Tensor theta_;
  double epsilon_ = 0;  ///< of the network's dtype
  std::shared_ptr<const control::Controller> controller_;
  std::optional<control::CrossEntropyController> classes_;  ///< the same for logits
  std::optional<Look> before_;  ///< at the `augment` before the last one
  std::optional<Look> last_;
  int64_t in_a_row_ = 0;  ///< steps that needed a new design
  int64_t refreshes_ = 0;
  std::string warning_;
};

}  // namespace cdt::train
