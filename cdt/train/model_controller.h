/// Controls a training loop that you write: provides labels that keep plain gradient descent stable
/// at its rate, for one model and its training samples.
///
/// A design is valid near the parameters for which it was made, and training moves them. Each step
/// is therefore compared with what the design predicted (`drift`); if the difference is too large,
/// the controller is redesigned. For the cross entropy this is the default, because its curvature,
/// and with it the design, changes within a few steps.
#pragma once

#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/loss/loss.h>

#include <memory>
#include <optional>
#include <string>

namespace cdt::train {

struct ModelControllerOptions {
  double learning_rate = 0.1;        ///< of the training loop
  loss::LossPtr loss = loss::mse();  ///< of the training loop; quadratic, or the cross entropy
  double q = 1.0;                    ///< weight on errors
  double p = 0.1;                    ///< weight on label augments
  /// Weight matrices [n, n], or diagonals [n], instead of qI and pI. Quadratic losses only.
  std::optional<torch::Tensor> Q;
  std::optional<torch::Tensor> R;
  std::string design = "lqr";  ///< a name in control::designs()
  /// Quadratic losses only: your own controller, gain or function, instead of the design and its
  /// weights (control/controller.h).
  control::ControllerFactory controller{};
  /// ε of the cross entropy; not allowed for other losses. Default: loss::kUsualSmoothing.
  std::optional<double> smoothing;
  /// `augment` redesigns the controller if `drift` exceeds this. Default: kUsualDrift for the cross
  /// entropy; infinite for quadratic losses, which are redesigned only by `refresh`, as in the
  /// paper.
  std::optional<double> refresh_above;
  int64_t memory_bytes = int64_t{2} << 30;  ///< limit for the kernel

  static constexpr double kUsualDrift = 0.5;
};

class ModelController {
 public:
  /// Designs the first controller. `x` and `y` as in TrainData: all samples that the loop trains
  /// on.
  /// @throws InvalidArgument if they do not fit the model or the loss, a rate or weight is not
  ///   positive, or Q, R or smoothing is given for a loss that does not support it.
  /// @throws NumericalError if no controller can be designed.
  ModelController(kernel::Model model, const torch::Tensor& x, const torch::Tensor& y,
                  const ModelControllerOptions& options);

  /// Returns the labels for this step, detached, in the shape of y_hat, the model's outputs on all
  /// of x. Call it once per step.
  /// @throws InvalidArgument if y_hat has another size.
  /// @throws NumericalError if y_hat is not finite: the loop has diverged. The message gives a
  ///   probable cause.
  torch::Tensor augment(const torch::Tensor& y_hat);
  /// Redesigns the controller for the current parameters.
  void refresh();

  /// Distance between the outputs at the last `augment` and those that the design predicted for the
  /// preceding step, relative to the length of that step. Near 1 the design is obsolete. Rounding
  /// errors do not count. Empty before the second `augment`.
  std::optional<double> drift() const;
  /// Warning of the last `augment`: set if each of ten consecutive steps needed a new design, which
  /// means that the loop is not plain gradient descent at this rate. Otherwise empty.
  const std::string& warning() const { return warning_; }

  double learning_rate() const { return options_.learning_rate; }
  /// Sets the rate and redesigns the controller. For learning rate schedules.
  void set_learning_rate(double rate);
  double closed_loop_radius() const;
  /// Certificate of the current design, on the linearization for which it was made.
  control::Certificate certificate() const;
  /// K [n, n] with y_u = −K(ŷ − y). For the cross entropy H + K, in zero-sum coordinates.
  torch::Tensor gain() const;
  const torch::Tensor& kernel() const { return theta_; }   ///< Θ [n, n] of the design
  const torch::Tensor& labels() const { return labels_; }  ///< y [r, n_L], float64
  const ModelControllerOptions& options() const { return options_; }
  int64_t refreshes() const { return refreshes_; }  ///< designs after the first

  /// Acts on x = ŷ − y for quadratic losses, on ζ for classes (loss/class_coordinates.h).
  const control::Controller& controller() const { return *controller_; }

 private:
  struct Look {
    torch::Tensor outputs;  ///< [r, n_L], float64
    torch::Tensor labels;   ///< labels that the step used
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
  std::optional<Look> before_;  ///< at the second-to-last `augment`
  std::optional<Look> last_;
  int64_t in_a_row_ = 0;  ///< consecutive steps that needed a new design
  int64_t refreshes_ = 0;
  std::string warning_;
};

}  // namespace cdt::train
