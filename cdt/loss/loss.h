/// Losses: the objective per sample, and what controllers and solvers need to know about it.
///
/// L = c·Σ wᵢ ℓ(ŷᵢ, yᵢ). Outputs ŷ and targets y are [r, n_L]; derivatives do not couple samples. A
/// user-defined loss derives from Loss: name, traits, scale and values suffice for gradient
/// descent. With a bound on its curvature it has a default rate, and solvers and the step guard can
/// use it.
#pragma once

#include <cdt/core/error.h>
#include <cdt/loss/residuals.h>
#include <torch/types.h>

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::loss {

class Loss;
using LossPtr = std::shared_ptr<const Loss>;

/// Properties of a loss that do not depend on the outputs.
struct Traits {
  /// ℓ = ½‖ŷ − y‖²: the local dynamics is given by αcΘ.
  bool quadratic = false;
  bool classes = false;   ///< targets are class distributions, outputs are logits
  bool trainable = true;  ///< false: for analysis only
  double smoothing = 0;   ///< label smoothing ε: trains on (1 − ε)y + ε/C
  /// Upper bound on ‖∂²ℓ/∂ŷ²‖; 0: no curvature to control, ∞: no bound is known.
  double curvature_bound = std::numeric_limits<double>::infinity();
  /// Outputs are not in the units of the targets; mean() converts them. Targets are then neither
  /// scaled nor log-transformed.
  bool keeps_units = false;
  double least_target = -std::numeric_limits<double>::infinity();  ///< smaller targets are rejected
  const char* in_words = "";  ///< what L is, if its name does not say so
  bool has_curvature() const { return curvature_bound > 0; }
};

/// Statistics of the outputs of a forward pass; not finite if the outputs are not.
struct Assessment {
  double loss = 0;    ///< L for the given targets, without weights or smoothing
  double misfit = 0;  ///< Σ w e² of a quadratic loss; otherwise the trained loss above its minimum
  /// The training objective without weight decay: weighted and smoothed.
  double objective = 0;
  /// 2Σ w(ℓ − min ℓ), which squared residuals approximate: ½c times it is the objective, up to a
  /// constant.
  double squares = 0;
};

/// Whether the caller needs values only, or derivatives too.
enum class Order { kValue, kDerivatives };

class Loss {
 public:
  virtual ~Loss() = default;
  virtual std::string name() const = 0;  ///< as `parse` reads it: "mse"
  virtual Traits traits() const = 0;
  bool quadratic() const { return traits().quadratic; }
  bool classes() const { return traits().classes; }
  /// c
  virtual double scale(int64_t samples, int64_t outputs) const = 0;
  /// ℓ [r], differentiable, in the dtype of the outputs.
  virtual torch::Tensor values(const torch::Tensor& outputs,
                               const torch::Tensor& targets) const = 0;
  /// min ℓ [r] over outputs. 0 by default.
  virtual torch::Tensor least(const torch::Tensor& targets) const;
  /// Predictions in the units of the targets; probabilities for classes. By default the outputs.
  virtual torch::Tensor mean(const torch::Tensor& outputs) const;
  /// Typical deviation of targets from their prediction `mean`, up to a common factor. 1 by
  /// default.
  virtual torch::Tensor spread(const torch::Tensor& mean) const;
  /// The same loss with label smoothing.
  /// @throws InvalidArgument unless it is a loss of classes.
  virtual LossPtr smoothed(double smoothing) const;
  /// @throws InvalidArgument, with the reason, if the loss or its derivatives do not exist here.
  virtual void require_defined(const torch::Tensor& outputs, const torch::Tensor& targets,
                               Order order) const;

  /// L [], with the graph of `outputs`; targets may have another dtype. c·Σℓ by default.
  virtual torch::Tensor graph(const torch::Tensor& outputs, const torch::Tensor& targets) const;
  /// ∂L/∂ŷ [r, n_L], 0 at a kink; differentiable if its arguments are. By autograd by default.
  virtual torch::Tensor gradient(const torch::Tensor& outputs, const torch::Tensor& targets) const;
  /// ∂²L/∂ŷ² [r, n_L, n_L]. By autograd by default.
  virtual torch::Tensor hessian(const torch::Tensor& outputs, const torch::Tensor& targets) const;
  /// Upper bound on ‖∂³L/∂ŷ³‖ between two outputs. ∞ by default: no bound is known.
  virtual double third_derivative_bound(const torch::Tensor& from, const torch::Tensor& to,
                                        const torch::Tensor& targets) const;

  /// The loss to second order at these outputs, from square roots of the Hessian's blocks with
  /// negative eigenvalues set to 0; weights [r·n_L] or undefined.
  Residuals second_order(const torch::Tensor& outputs, const torch::Tensor& targets,
                         const torch::Tensor& weights) const;
  /// The Gauss-Newton form for solvers. second_order by default.
  virtual Residuals residuals(const torch::Tensor& outputs, const torch::Tensor& targets,
                              const torch::Tensor& weights) const;
  /// Shape of the residuals, without outputs.
  virtual ResidualShape residual_shape(int64_t outputs) const;

  /// Sums [k] float64 from which the host computes an assessment. Sums of many passes can stay on
  /// the device and be read together.
  virtual torch::Tensor sums(const torch::Tensor& outputs, const torch::Tensor& targets,
                             const torch::Tensor& weights = {}) const;
  /// The assessment from those sums, for targets [samples, outputs].
  virtual Assessment assessment(std::span<const double> sums, int64_t samples,
                                int64_t outputs) const;
};

/// ∂sum/∂at with its own graph; zeros if `sum` does not depend on `at`.
torch::Tensor derivative(const torch::Tensor& sum, const torch::Tensor& at);

/// Outputs in float64; weights w [r·n_L], for classes equal for all outputs of a sample.
Assessment assess(const Loss& loss, const torch::Tensor& outputs, const torch::Tensor& targets,
                  const torch::Tensor& weights = {});
/// (1 − ε)y + ε/C
torch::Tensor smoothed_targets(const torch::Tensor& targets, double smoothing);

LossPtr sse();                                ///< ½‖e‖², c = 1
LossPtr half_mse();                           ///< ½‖e‖²/n: the paper's MSE
LossPtr mse();                                ///< ‖e‖²/n, c = 2/n: PyTorch's mse_loss
LossPtr mae();                                ///< ‖e‖₁/n: no curvature, so no control
LossPtr cross_entropy(double smoothing = 0);  ///< on logits: PyTorch's cross_entropy
/// ½e² up to |e| = δ, linear beyond, mean over all outputs: PyTorch's huber_loss. Outliers have the
/// same gradient as errors of δ.
LossPtr huber(double delta = 1);
/// The quantile q of the targets, by the pinball loss; smoothed within about 0.02 of its kink.
LossPtr quantile(double q = 0.5);
/// For counts with mean e^ŷ: half the mean deviance.
LossPtr poisson();
LossPtr negative_log();  ///< −yᵀlog ŷ on probabilities ŷ > 0: the paper's (eq. CEloss)

/// Table entry by which programs, files and Python find a loss.
struct Entry {
  std::string name;
  std::string summary;  ///< for --help
  /// Makes the loss from the text after a colon in its name, "1.5" in "huber:1.5"; often empty.
  std::function<LossPtr(std::string_view argument)> make;
};
/// Built-in losses; a program adds its own to a copy.
std::vector<Entry> losses();
/// @throws InvalidArgument on an unknown name; the message lists the known names.
LossPtr find(std::string_view name, const std::vector<Entry>& table);
/// Writes "huber:1.5", and reads the number after the colon; `usual` if there is none.
/// @throws InvalidArgument if it is not a number.
std::string with_argument(std::string_view name, double value);
double number_of(std::string_view argument, double usual);
/// Finds a built-in loss.
LossPtr parse(std::string_view name);
std::string to_string(const LossPtr& loss);

/// @throws InvalidArgument if one of the targets [r, …] is below the smallest that the loss allows;
///   the message names its row.
void require_targets(const Loss& loss, const torch::Tensor& targets, std::string_view name);
/// @throws InvalidArgument unless the loss is quadratic; the message begins with `who`.
void require_quadratic(const Loss& loss, std::string_view who);
/// c of a quadratic loss of n = r·n_L outputs: its gradient is c·e.
/// @throws InvalidArgument unless it is quadratic and n ≥ 1.
double gradient_factor(const LossPtr& loss, int64_t n);
/// αc: what controllers and analysis need of a rate and a loss. The local dynamics is e⁺ = (I − S)e
/// with S = αcΘ.
/// @throws InvalidArgument as gradient_factor, or unless α ≥ 0 and finite.
double step_scale(double learning_rate, const LossPtr& loss, int64_t n);
/// ½c‖e‖² as a function of the error e (any shape).
/// @throws InvalidArgument unless the loss is quadratic and e finite.
double loss_value(const LossPtr& loss, const torch::Tensor& error);

}  // namespace cdt::loss
