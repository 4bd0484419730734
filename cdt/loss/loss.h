/// A loss: what training lowers, by samples, and what controllers and solvers want to know of it.
///
/// L = c·Σ wᵢ ℓ(ŷᵢ, yᵢ). Outputs ŷ and targets y are [r, n_L]; derivatives do not couple samples.
/// Your own loss derives from Loss: name, traits, scale and values are enough to descend.
/// With a bound on its curvature it can be given a rate, and its steps can be solved and guarded.
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

/// What is known of a loss whatever the outputs are.
struct Traits {
  /// ℓ = ½‖ŷ − y‖²: the local dynamics is that of αcΘ.
  bool quadratic = false;
  bool classes = false;   ///< targets are distributions over classes, outputs their logits
  bool trainable = true;  ///< else it is for analysis alone
  double smoothing = 0;   ///< ε of classes: trained on (1 − ε)y + ε/C
  /// No less than ‖∂²ℓ/∂ŷ²‖ anywhere; 0: there is nothing to control, ∞: no bound is known.
  double curvature_bound = std::numeric_limits<double>::infinity();
  /// Outputs are no numbers in the units of the targets, which mean() leads to. So targets are
  /// trained on as they are: neither scaled nor their logarithms.
  bool keeps_units = false;
  double least_target = -std::numeric_limits<double>::infinity();  ///< those below are refused
  const char* in_words = "";  ///< what L is, where its name does not say it
  bool has_curvature() const { return curvature_bound > 0; }
};

/// What a forward pass tells of outputs; not finite where they are not.
struct Assessment {
  double loss = 0;    ///< L, against the targets as they were given, without weights
  double misfit = 0;  ///< Σ w e² of a quadratic loss; else the trained loss above its minimum
  /// What training lowers, but for weight decay: with weights, smoothed.
  double objective = 0;
  /// 2Σ w(ℓ − min ℓ), what squared residuals are a model of: ½c of it is the objective, up to a
  /// constant.
  double squares = 0;
};

/// Whether values alone are wanted, or derivatives, too.
enum class Order { kValue, kDerivatives };

class Loss {
 public:
  virtual ~Loss() = default;
  virtual std::string name() const = 0;  ///< "mse"; as `parse` reads it
  virtual Traits traits() const = 0;
  bool quadratic() const { return traits().quadratic; }
  bool classes() const { return traits().classes; }
  /// c
  virtual double scale(int64_t samples, int64_t outputs) const = 0;
  /// ℓ [r], differentiable, in the dtype of the outputs.
  virtual torch::Tensor values(const torch::Tensor& outputs,
                               const torch::Tensor& targets) const = 0;
  /// min ℓ [r] over outputs. Default: 0.
  virtual torch::Tensor least(const torch::Tensor& targets) const;
  /// What outputs predict, in the units of the targets; of classes probabilities. Default: they are
  /// the prediction.
  virtual torch::Tensor mean(const torch::Tensor& outputs) const;
  /// How far targets lie from such predictions, up to a factor. Default: 1, from all as far.
  virtual torch::Tensor spread(const torch::Tensor& mean) const;
  /// The same with label smoothing.
  /// @throws InvalidArgument if it is of classes alone, and this is of numbers.
  virtual LossPtr smoothed(double smoothing) const;
  /// @throws InvalidArgument, in words, where the loss or its derivatives do not exist.
  virtual void require_defined(const torch::Tensor& outputs, const torch::Tensor& targets,
                               Order order) const;

  /// L [], with the graph of `outputs`, whose dtype targets need not have. Default: c·Σℓ.
  virtual torch::Tensor graph(const torch::Tensor& outputs, const torch::Tensor& targets) const;
  /// ∂L/∂ŷ [r, n_L], and 0 at a kink; with the graph of what it is computed from, if that has one.
  /// Default: by autograd.
  virtual torch::Tensor gradient(const torch::Tensor& outputs, const torch::Tensor& targets) const;
  /// ∂²L/∂ŷ² [r, n_L, n_L]. Default: by autograd.
  virtual torch::Tensor hessian(const torch::Tensor& outputs, const torch::Tensor& targets) const;
  /// No less than ‖∂³L/∂ŷ³‖ anywhere between two outputs. Default: no bound is known, ∞.
  virtual double third_derivative_bound(const torch::Tensor& from, const torch::Tensor& to,
                                        const torch::Tensor& targets) const;

  /// The loss at these outputs to second order, by the roots of the blocks of the Hessian as far as
  /// they are not negative; weights [r·n_L] or undefined.
  Residuals second_order(const torch::Tensor& outputs, const torch::Tensor& targets,
                         const torch::Tensor& weights) const;
  /// The Gauss-Newton form that steps are solved with. Default: second_order.
  virtual Residuals residuals(const torch::Tensor& outputs, const torch::Tensor& targets,
                              const torch::Tensor& weights) const;
  /// Of those, without outputs.
  virtual ResidualShape residual_shape(int64_t outputs) const;

  /// What an assessment reads, [k] float64; the host computes the rest: so
  /// numbers of many passes can wait on the device and be read together.
  virtual torch::Tensor sums(const torch::Tensor& outputs, const torch::Tensor& targets,
                             const torch::Tensor& weights = {}) const;
  /// From those sums, of targets [samples, outputs].
  virtual Assessment assessment(std::span<const double> sums, int64_t samples,
                                int64_t outputs) const;
};

/// ∂sum/∂at with its own graph; zeros where it does not depend on it.
torch::Tensor derivative(const torch::Tensor& sum, const torch::Tensor& at);

/// The outputs float64; weights w [r·n_L], of classes the same for all outputs of a sample.
Assessment assess(const Loss& loss, const torch::Tensor& outputs, const torch::Tensor& targets,
                  const torch::Tensor& weights = {});
/// (1 − ε)y + ε/C
torch::Tensor smoothed_targets(const torch::Tensor& targets, double smoothing);

LossPtr sse();                                ///< ½‖e‖², c = 1
LossPtr half_mse();                           ///< ½‖e‖²/n: the paper's MSE
LossPtr mse();                                ///< ‖e‖²/n, c = 2/n: PyTorch's mse_loss
LossPtr mae();                                ///< ‖e‖₁/n: no curvature, so nothing to control
LossPtr cross_entropy(double smoothing = 0);  ///< on logits: PyTorch's cross_entropy
/// ½e² up to |e| = δ, a line beyond, mean over all outputs: PyTorch's huber_loss. Rows that are far
/// off pull no harder than those at δ.
LossPtr huber(double delta = 1);
/// The quantile q of the targets, by the pinball loss; smoothed within some 0.02 of its kink.
LossPtr quantile(double q = 0.5);
/// Of counts, whose mean is e^ŷ: half the mean deviance.
LossPtr poisson();
LossPtr negative_log();  ///< −yᵀlog ŷ on probabilities ŷ > 0: the paper's (eq. CEloss)

/// A row of the table by which programs, files and Python find a loss.
struct Entry {
  std::string name;
  std::string summary;  ///< for --help
  /// From what stands behind a colon in the name: "1.5" of "huber:1.5"; mostly empty.
  std::function<LossPtr(std::string_view argument)> make;
};
/// Those of the library; a program adds its own to a copy.
std::vector<Entry> losses();
/// @throws InvalidArgument on another name, with those that there are.
LossPtr find(std::string_view name, const std::vector<Entry>& table);
/// "huber:1.5", and the number behind the colon; `usual` if nothing stands there.
/// @throws InvalidArgument if it is no number.
std::string with_argument(std::string_view name, double value);
double number_of(std::string_view argument, double usual);
/// In the library's own.
LossPtr parse(std::string_view name);
std::string to_string(const LossPtr& loss);

/// @throws InvalidArgument if one of the targets [r, …] is below the least that the loss is defined
///   for; the message has its row.
void require_targets(const Loss& loss, const torch::Tensor& targets, std::string_view name);
/// @throws InvalidArgument unless the loss is quadratic; the message begins with who needs it so.
void require_quadratic(const Loss& loss, std::string_view who);
/// c of a quadratic loss of n = r·n_L outputs: its gradient is c·e.
/// @throws InvalidArgument unless it is quadratic and n ≥ 1.
double gradient_factor(const LossPtr& loss, int64_t n);
/// αc: what controllers and analysis want to know of a rate and a loss. The local dynamics is
/// e⁺ = (I − S)e with S = αcΘ.
/// @throws InvalidArgument as gradient_factor, or unless α ≥ 0 and finite.
double step_scale(double learning_rate, const LossPtr& loss, int64_t n);
/// ½c‖e‖² as a function of the error e (any shape).
/// @throws InvalidArgument unless the loss is quadratic and e finite.
double loss_value(const LossPtr& loss, const torch::Tensor& error);

}  // namespace cdt::loss
