/// Coordinates between outputs and a controller: x = T(ŷ − ŷ_e), in which the loop of a loss is
/// linear and symmetric, x⁺ = x − αcM(x − u) with M = TΘTᵀ.
///
/// Quadratic losses have T = I, with weights W^½; classes have T = H^½ on zero-sum logits
/// (loss/class_coordinates.h), also with weights of samples; coordinates of a single linearization
/// have T = Sᵀ, the Gauss-Newton root of any loss (loss/residuals.h).
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
  /// x [n] of outputs ŷ [b, n_L], float64; not finite if the outputs are not.
  virtual torch::Tensor state(const torch::Tensor& outputs) const = 0;
  /// Change of x for a change [b·n_L] of the outputs.
  virtual torch::Tensor moved(const torch::Tensor& change) const = 0;
  /// Tᵀv [b·n_L], the seed of a backward pass.
  virtual torch::Tensor seed(const torch::Tensor& v) const = 0;
  /// αc·Tᵀv: the seed of descent at rate α on v instead of x.
  virtual torch::Tensor step_seed(const torch::Tensor& v, double rate) const = 0;
  /// M from Θ; and the relative size below which its eigenvalues count as zero, for a network of
  /// this precision.
  virtual torch::Tensor kernel(const torch::Tensor& theta) const = 0;
  virtual double rank_tolerance(torch::ScalarType network) const;
  /// Plant options with c and the weight decay d.
  virtual control::Plant::Options plant(double decay) const = 0;
  /// The loss above its minimum, with its weights, including unreachable errors.
  virtual double loss(const torch::Tensor& x) const = 0;
  /// What a guard monitors, if that is neither a function of x nor defined by the controller.
  virtual std::optional<double> watched(const torch::Tensor&) const { return std::nullopt; }
  /// Whether the loss is ½c‖x‖², so that x is its gradient up to a factor.
  virtual bool quadratic() const { return true; }
  /// y_u if the error x is steered to v.
  virtual torch::Tensor augment(const torch::Tensor& x, const torch::Tensor& v) const;
  /// The gradient of the loss in x, up to a factor; its reachable part can still be reduced.
  virtual torch::Tensor gradient(const torch::Tensor& x) const { return x; }
  /// An upper bound on ‖T‖.
  virtual double sensitivity() const { return 1; }

  virtual int64_t bytes() const { return 0; }
  /// Saves the state that labels and weights do not determine.
  virtual void save(SavedState&) const {}
};

using CoordinatesPtr = std::shared_ptr<const Coordinates>;

/// W^½(ŷ − y) for labels y [n] and root W^½ [n], float64, undefined if all weights are 1; c =
/// `factor`.
CoordinatesPtr error_coordinates(torch::Tensor labels, torch::Tensor root, double factor);
/// ζ of classes at a linearization; weights of samples [r], undefined if all are 1.
CoordinatesPtr class_coordinates(loss::ClassCoordinates classes, const torch::Tensor& weights);
/// Whether the coordinates were saved with weights: then the saved modes are those of M. Older
/// checkpoints have the modes of Θ.
bool saved_weighted(const SavedState& state);
/// The saved curvature of class coordinates, for labels [r, C].
loss::ClassCoordinates saved_curvature(const SavedState& state, const torch::Tensor& labels,
                                       double smoothing);
/// Sᵀδŷ + e, valid only at the outputs of the residuals; `weights` [b·n_L] as in the loss. The rows
/// of x are those of this rank.
CoordinatesPtr residual_coordinates(loss::Residuals residuals, loss::LossPtr loss,
                                    torch::Tensor labels, torch::Tensor weights,
                                    std::shared_ptr<const Ranks> ranks);

}  // namespace cdt::train
