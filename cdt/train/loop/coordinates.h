/// What stands between outputs and a controller: x = T(ŷ − ŷ_e), in which the loop of a loss is
/// linear and symmetric, x⁺ = x − αcM(x − u) with M = TΘTᵀ.
///
/// Of quadratic losses T = 1, with weights W^½; of classes T = H^½ of zero-sum logits
/// (loss/class_coordinates.h), with weights of samples too; of one linearization alone T = Sᵀ, the
/// Gauss-Newton root of any loss (loss/residuals.h).
#pragma once

#include <cdt/control/plant.h>
#include <cdt/core/error.h>
#include <cdt/loss/class_coordinates.h>
#include <cdt/loss/loss.h>
#include <cdt/train/loop/residuals.h>
#include <cdt/train/saved_state.h>

#include <memory>
#include <optional>

namespace cdt::train {

class Coordinates {
 public:
  virtual ~Coordinates() = default;

  virtual int64_t size() const = 0;  ///< of x
  /// x [n] of outputs ŷ [b, n_L], float64; not finite where they are not.
  virtual torch::Tensor state(const torch::Tensor& outputs) const = 0;
  /// By how much x moves as outputs do, by [b·n_L].
  virtual torch::Tensor moved(const torch::Tensor& change) const = 0;
  /// Tᵀv [b·n_L], with which a backward pass starts.
  virtual torch::Tensor seed(const torch::Tensor& v) const = 0;
  /// αc·Tᵀv: of descent at rate α on v instead of x.
  virtual torch::Tensor step_seed(const torch::Tensor& v, double rate) const = 0;
  /// M of Θ, and the share of its largest eigenvalue below which, of a network's precision, one is
  /// zero.
  virtual torch::Tensor kernel(const torch::Tensor& theta) const = 0;
  virtual double rank_tolerance(torch::ScalarType network) const;
  /// c, of a plant with weight decay d.
  virtual control::Plant::Options plant(double decay) const = 0;
  /// The loss above its minimum, with its weights; errors out of reach included.
  virtual double loss(const torch::Tensor& x) const = 0;
  /// What a guard watches, where that is neither a function of x nor up to a controller.
  virtual std::optional<double> watched(const torch::Tensor&) const { return std::nullopt; }
  /// Whether the loss is ½c‖x‖²: then the gradient is that of x itself.
  virtual bool quadratic() const { return true; }
  /// y_u of an error that is steered to v.
  virtual torch::Tensor augment(const torch::Tensor& x, const torch::Tensor& v) const;
  /// The gradient of the loss in x, up to a factor: what of it labels reach can still be lowered.
  virtual torch::Tensor gradient(const torch::Tensor& x) const { return x; }
  /// No less than ‖T‖.
  virtual double sensitivity() const { return 1; }

  virtual int64_t bytes() const { return 0; }
  /// What of it is not of labels and weights.
  virtual void save(SavedState&) const {}
};

using CoordinatesPtr = std::shared_ptr<const Coordinates>;

/// W^½(ŷ − y) for labels y [n] and root W^½ [n], float64, undefined if all are 1; c = `factor`.
CoordinatesPtr error_coordinates(torch::Tensor labels, torch::Tensor root, double factor);
/// ζ of classes at a linearization; weights of samples [r], undefined if all are 1.
CoordinatesPtr class_coordinates(loss::ClassCoordinates classes, const torch::Tensor& weights);
/// Whether such coordinates have saved that they have a root: modes beside it are those of M. Older
/// checkpoints have the modes of Θ.
bool saved_weighted(const SavedState& state);
/// The curvature that such coordinates have saved, of labels [r, C].
loss::ClassCoordinates saved_curvature(const SavedState& state, const torch::Tensor& labels,
                                       double smoothing);
/// Sᵀδŷ + e at the outputs of the residuals and at no others; `weights` [b·n_L] as the loss takes
/// them. The rows of x are those of this rank.
CoordinatesPtr residual_coordinates(loss::Residuals residuals, loss::LossPtr loss,
                                    torch::Tensor labels, torch::Tensor weights,
                                    std::shared_ptr<const Ranks> ranks);

}  // namespace cdt::train
