/// Any controller between plant and network (control/controller.h): one's own, a gain, a function.
///
/// The state is x [n] in the plant's coordinates: e of a quadratic loss, W^½e with weights, ζ of
/// classes (control/cross_entropy.h).
#pragma once

#include <cdt/control/controller.h>
#include <cdt/control/cross_entropy.h>
#include <cdt/core/error.h>
#include <cdt/loss/loss.h>
#include <cdt/train/feedback.h>

#include <memory>
#include <optional>

namespace cdt::train {

class ControllerFeedback : public Feedback {
 public:
  /// Of outputs: how they become errors x, and steered errors the seed of a backward pass.
  struct Coordinates {
    torch::Tensor labels;  ///< y [n], float64
    torch::Tensor root;    ///< W^½ [n]; undefined: all 1
    /// Of classes, with the curvature that it was made for; then there are no labels beside it.
    std::optional<control::CrossEntropyPlant> classes{};

    torch::Tensor state(const torch::Tensor& outputs) const;  ///< x
    torch::Tensor seed(const torch::Tensor& v) const;         ///< of the gradient c·v [r·n_L]
    torch::Tensor kernel(const torch::Tensor& theta) const;   ///< M of Θ
  };

  /// `matrix` is M [n, n], float64, of c = `gradient_factor`; `before` the controller of another
  /// linearization, which goes on from its state, or none: then `make` makes one.
  ControllerFeedback(Coordinates coordinates, torch::Tensor matrix, double rank_tolerance,
                     double gradient_factor, control::ControllerFactory make,
                     const ControllerFeedback* before);

  void design(double rate) override;
  double rate() const override { return rate_; }
  double unit_rate() const override;
  /// Nothing is known of it that costs nothing: 1.
  double closed_loop_radius() const override { return 1; }
  control::Certificate certificate(const torch::Tensor& theta = {}) const override;

  torch::Tensor state(const torch::Tensor& outputs) const override;
  Proposal propose(const torch::Tensor& state, double rate) const override;
  Steered steer(const torch::Tensor& outputs) override;
  double merit(const torch::Tensor& state) const override;
  double distance(const torch::Tensor& state) const override;
  bool settled(const torch::Tensor& state, double rounding) const override;
  void took(const torch::Tensor& state) override;

  int64_t bytes() const override;
  void save(SavedState& state) const override;
  /// M of a saved state, and the curvature of its classes.
  static torch::Tensor saved_matrix(const SavedState& state, int64_t n, torch::Device device);
  void restore(const SavedState& state) override;

 private:
  control::Plant plant() const;
  control::Observation at(const torch::Tensor& x) const { return {x, taken_}; }

  Coordinates coordinates_;
  torch::Tensor matrix_;
  double rank_tolerance_;
  double gradient_factor_;
  control::ControllerFactory make_;
  std::unique_ptr<control::Controller> controller_;
  double rate_ = 0;
  int64_t taken_ = 0;  ///< steps that were kept
};

}  // namespace cdt::train
