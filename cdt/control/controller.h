/// A controller: what it does to the errors of one linearization, and what it promises.
///
/// The library's own are laws, mode by mode (law.h, ModalController), gains (GainController) and
/// functions. Derive your own from Controller; training takes it as it takes ours
/// (TrainOptions::controller, docs/cpp.md).
#pragma once

#include <cdt/control/certificate.h>
#include <cdt/control/law.h>
#include <cdt/control/plant.h>
#include <cdt/core/error.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cdt::control {

/// What a controller sees at a step.
struct Observation {
  Observation(torch::Tensor errors, int64_t at = 0) : x(std::move(errors)), step(at) {}
  torch::Tensor x;  ///< [n], float64, in the plant's coordinates
  int64_t step;     ///< how many it has taken before
};

/// One step at a share of the rate that it was designed for, and what the plant says of it.
struct Step {
  torch::Tensor v;        ///< [n], what descent acts on instead of x; or
  torch::Tensor u{};      ///< [n], δ = −(TJ)ᵀu of a whole step; or
  torch::Tensor delta{};  ///< δ [P] of a whole step
  torch::Tensor left{};   ///< x after it
  double merit = std::numeric_limits<double>::quiet_NaN();  ///< Controller::merit of that
  double augment = 0;                                       ///< ‖v − x‖
  bool complete = true;                                     ///< as exact as its solver can be
};

class Controller {
 public:
  explicit Controller(Plant plant) : plant_(std::move(plant)) {}
  virtual ~Controller() = default;

  /// v = x − u [n], what descent acts on instead of x; u is the label augment. Changes nothing: the
  /// guard may take the step back.
  virtual torch::Tensor steer(const Observation& at) const = 0;
  /// What one step leaves of x. Default: x − S·steer.
  virtual torch::Tensor predict(const Observation& at) const;
  /// A step as a guard judges it. Default: of steer and predict.
  virtual Step step(const Observation& at, double share = 1) const;
  /// `steer` in the plant's modes, m [m] for x = Vm; with the decay among their steps. Default: Vᵀ
  /// steer(Vm).
  virtual torch::Tensor steer_modes(const torch::Tensor& modal) const;
  /// What a guard watches. Default: ‖x‖², the loss above its minimum.
  virtual double merit(const torch::Tensor& x) const;
  /// G [n, n], where `steer` is Gx whatever the step is.
  virtual torch::Tensor matrix() const { return {}; }
  /// What it promises. M of the plant, where it is known, is what the residual of an equation
  /// is measured with; without it the residual is not known. Default: of the linear part of
  /// `steer`, by probing; it says so.
  virtual Certificate certificate(const torch::Tensor& matrix = {}) const;
  /// The same controller for another linearization, or rate.
  virtual std::unique_ptr<Controller> redesigned(const Plant& plant) const = 0;
  /// The step from `at` was taken and kept: integrators advance.
  virtual void took(const Observation&) {}
  /// Names each tensor of its own state, for checkpoints, which read it and write to it.
  using Field = std::function<void(const std::string& name, torch::Tensor& value)>;
  virtual void fields(const Field&) {}
  /// No less than the share of x that a step leaves. Default: 1, since nothing is known that costs
  /// nothing.
  virtual double closed_loop_radius() const { return 1; }
  /// Memory beside the plant's. Default: two matrices [n, n].
  virtual int64_t bytes() const;

  const Plant& plant() const { return plant_; }

 protected:
  Controller(const Controller&) = default;
  Plant plant_;
};

/// How a controller is made for a linearization: what training takes.
using ControllerFactory = std::function<std::unique_ptr<Controller>(const Plant& plant)>;

/// A law, in modes. Where only leading modes are known the rest is steered as one, by the gain of
/// the longest step that any of them can have (SpectralController says why).
class ModalController : public Controller {
 public:
  ModalController(Plant plant, Law law);

  torch::Tensor steer(const Observation& at) const override;
  torch::Tensor predict(const Observation& at) const override;
  Step step(const Observation& at, double share = 1) const override;
  torch::Tensor steer_modes(const torch::Tensor& modal) const override;
  /// ‖x‖² on reachable modes: the rest stays whatever is done.
  double merit(const torch::Tensor& x) const override;
  torch::Tensor matrix() const override;
  Certificate certificate(const torch::Tensor& matrix = {}) const override;
  std::unique_ptr<Controller> redesigned(const Plant& plant) const override;

  /// K = G − 1 [n, n], without cancellation.
  torch::Tensor gain_matrix() const;
  const Law& law() const { return law_; }
  const torch::Tensor& steps() const { return s_; }            ///< s [m]
  const torch::Tensor& steering() const { return steering_; }  ///< g(s) [m]
  const torch::Tensor& closed_loop() const { return closed_loop_; }
  double closed_loop_radius() const override;
  int64_t bytes() const override { return 0; }

 private:
  double square(const torch::Tensor& modal) const;
  torch::Tensor reachable(const torch::Tensor& modal) const;

  Law law_;
  torch::Tensor s_;
  torch::Tensor steering_;
  torch::Tensor closed_loop_;
  double tail_step_ = 0;  ///< s̄; 0 without a tail
  double tail_steering_ = 1;
};

/// Any gain: u = −K(x), v = Gx with G = I + K [n, n]. `steering` is G, and `cost` P [n, n] where
/// the gain is the optimal one of a problem; undefined otherwise.
class GainController : public Controller {
 public:
  struct Gain {
    torch::Tensor steering;
    torch::Tensor cost{};
    std::string name = "gain matrix";
    std::string optimal{};
    double residual = std::numeric_limits<double>::quiet_NaN();
    double radius = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not known yet
  };
  /// For another plant `again` makes the gain anew; without it the gain stays.
  GainController(Plant plant, Gain gain, std::function<Gain(const Plant&)> again = {});

  torch::Tensor steer(const Observation& at) const override;
  double merit(const torch::Tensor& x) const override;
  torch::Tensor matrix() const override { return gain_.steering; }
  Certificate certificate(const torch::Tensor& matrix = {}) const override;
  std::unique_ptr<Controller> redesigned(const Plant& plant) const override;
  double closed_loop_radius() const override { return std::isnan(gain_.radius) ? 1 : gain_.radius; }

  const Gain& gain() const { return gain_; }

 private:
  Gain gain_;
  std::function<Gain(const Plant&)> again_;
};

/// u = −Kx for a gain [n, n], kept as the linearization changes.
/// @throws InvalidArgument unless K is [n, n], float64 and finite.
std::unique_ptr<Controller> from_gain(const Plant& plant, const torch::Tensor& K);
/// Any function x [n] → u [n], float64: what is added to the labels of a quadratic loss, where x is
/// ŷ − y.
std::unique_ptr<Controller> from_function(const Plant& plant,
                                          std::function<torch::Tensor(const torch::Tensor& x)> u);

/// The problem that a design solves: the least of Σ xᵀQx + uᵀRu over all steps to come.
struct ControlProblem {
  double q = 1.0;
  double p = 0.1;
  std::function<torch::Tensor(const torch::Tensor& s)> shape{};  ///< factors on q, by step
  torch::Tensor Q{};  ///< [n, n] or a diagonal [n], instead of q; undefined: q
  torch::Tensor R{};  ///< likewise, instead of p
};

/// A row of the table in which `design` looks its names up.
struct Design {
  std::string name;
  std::string summary;
  std::function<std::unique_ptr<Controller>(const Plant&, const ControlProblem&)> make;
};
/// Those of the library: lqr, damped, descent; a program adds its own to a copy.
std::vector<Design> designs();
/// @throws InvalidArgument on another name, with those that there are; or as the design.
/// @throws NumericalError as the design.
std::unique_ptr<Controller> design(const Plant& plant, const ControlProblem& problem = {},
                                   std::string_view name = "lqr",
                                   const std::vector<Design>& table = designs());

}  // namespace cdt::control
