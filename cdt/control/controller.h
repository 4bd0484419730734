/// A controller steers the errors of one linearization; its certificate states what it guarantees.
///
///     const auto kernel = kernel::empirical_ntk(model, x);               // kernel/ntk.h
///     const auto plant = control::Plant::of(kernel, loss::mse(), rate);  // plant.h
///     const auto controller = control::design(plant);
///     const auto label = controller->augment(y_hat, y);                  // to train on, not y
///
/// The library's controllers are laws, mode by mode (law.h, ModalController), gain matrices
/// (GainController) and functions (from_function). To write your own, derive from Controller;
/// training accepts it like the library's (TrainOptions::controller, docs/cpp.md).
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

/// What a controller observes at a step.
struct Observation {
  Observation(torch::Tensor errors, int64_t at = 0) : x(std::move(errors)), step(at) {}
  torch::Tensor x;  ///< [n], float64, in the plant's coordinates
  int64_t step;     ///< number of steps taken before
};

/// One step at a share of the design rate, and what the plant predicts for it.
struct Step {
  torch::Tensor v;        ///< [n], descent acts on it instead of x; or
  torch::Tensor u{};      ///< [n], with δ = −(TJ)ᵀu for a full step; or
  torch::Tensor delta{};  ///< δ [P] of a full step
  torch::Tensor left{};   ///< x after the step
  double merit = std::numeric_limits<double>::quiet_NaN();  ///< Controller::merit of `left`
  double augment = 0;                                       ///< ‖v − x‖
  bool complete = true;                                     ///< the solver reached its tolerance
};

class Controller {
 public:
  explicit Controller(Plant plant) : plant_(std::move(plant)) {}
  virtual ~Controller() = default;

  /// The label ȳ to train on instead of y, detached. For a quadratic loss ȳ = ŷ − v, where v is
  /// `steer` of e = ŷ − y; any floating dtype, of shape [n], [r, n_L] or similar. For classes,
  /// y_hat are the logits [r, C] and y is omitted: the plant has the labels. The result has the
  /// shape, dtype and device of y_hat; the arithmetic is float64.
  /// @throws InvalidArgument if the shapes differ or do not have the plant's size, or an entry is
  ///   not finite.
  torch::Tensor augment(const torch::Tensor& y_hat, const torch::Tensor& y = {}) const;

  /// v = x − u [n]: descent acts on v instead of x; u is the label augment. Must not change the
  /// controller, since the guard may reject the step.
  virtual torch::Tensor steer(const Observation& at) const = 0;
  /// x after one step. Default: x − S·steer.
  virtual torch::Tensor predict(const Observation& at) const;
  /// A step as a guard judges it. Default: computed from steer and predict.
  virtual Step step(const Observation& at, double share = 1) const;
  /// `steer` in the coordinates m [m] of the plant's modes, x = Vm; their steps include the decay.
  /// Default: Vᵀ steer(Vm).
  virtual torch::Tensor steer_modes(const torch::Tensor& modal) const;
  /// The number that a guard monitors. Default: ‖x‖², the loss above its minimum up to a factor.
  virtual double merit(const torch::Tensor& x) const;
  /// G [n, n] if `steer` is Gx at every step; otherwise undefined.
  virtual torch::Tensor matrix() const { return {}; }
  /// K [n, n] with u = −Kx, if G is defined. Default: G − I.
  virtual torch::Tensor gain_matrix() const;
  /// P [n, n] of a controller that minimizes an infinite-horizon cost, on the reachable subspace;
  /// elsewhere the cost is infinite. Undefined for other controllers.
  virtual torch::Tensor cost_matrix() const { return {}; }
  /// ½xᵀPx. Infinite if a share of x above tol::kUnreachableError lies outside the reachable
  /// subspace or the known modes; NaN without P.
  virtual double optimal_cost(const torch::Tensor& x) const;
  /// The controller's guarantees. `matrix` is M of the plant; it is needed for the residual of an
  /// equation, which is NaN without it. Default: probes the linear part of `steer`, and says so.
  virtual Certificate certificate(const torch::Tensor& matrix = {}) const;
  /// The same controller for another linearization or rate.
  virtual std::unique_ptr<Controller> redesigned(const Plant& plant) const = 0;
  /// Called after the step from the observation was accepted: integrators advance.
  virtual void took(const Observation&) {}
  /// Passes each tensor of the controller's state with its name; checkpoints read and write it.
  using Field = std::function<void(const std::string& name, torch::Tensor& value)>;
  virtual void fields(const Field&) {}
  /// An upper bound on the share of x that a step leaves. Default: 1, which needs no computation.
  virtual double closed_loop_radius() const { return 1; }
  /// Memory in addition to the plant's. Default: two matrices [n, n].
  virtual int64_t bytes() const;

  const Plant& plant() const { return plant_; }

 protected:
  Controller(const Controller&) = default;
  Plant plant_;
};

/// Makes the controller of a linearization; training takes such a factory.
using ControllerFactory = std::function<std::unique_ptr<Controller>(const Plant& plant)>;

/// A law, applied in the modes of the plant: G = V g(S) Vᵀ + g(s̄)(I − VVᵀ).
///
/// If only leading modes are known, the rest, the tail, is steered as one mode of step s̄ =
/// αc·tail_bound, which bounds every step in the tail. Under lqr the true modes of the tail then
/// have the factors 1 − s·g(s̄), between 1 − s̄·g(s̄) > −1 and 1, at any rate; and since k falls
/// with s, the error of SK is at most s̄(k(0) − k(s̄)). With all modes known there is no tail.
class ModalController : public Controller {
 public:
  /// @throws InvalidArgument if the law does not return one finite value per mode, or steps are so
  ///   large that their squares overflow.
  ModalController(Plant plant, Law law);

  torch::Tensor steer(const Observation& at) const override;
  /// Leaves the tail of x unchanged, an upper bound: with a tail, the norm of the result is a
  /// bound.
  torch::Tensor predict(const Observation& at) const override;
  Step step(const Observation& at, double share = 1) const override;
  torch::Tensor steer_modes(const torch::Tensor& modal) const override;
  /// ‖x‖² on reachable modes; no label moves the rest.
  double merit(const torch::Tensor& x) const override;
  torch::Tensor matrix() const override;
  torch::Tensor gain_matrix() const override;
  torch::Tensor cost_matrix() const override;
  double optimal_cost(const torch::Tensor& x) const override;
  Certificate certificate(const torch::Tensor& matrix = {}) const override;
  std::unique_ptr<Controller> redesigned(const Plant& plant) const override;
  /// max |1 − s g(s)| over reachable modes. For a law that damps every mode it is below 1 even if s
  /// is too small to show in floating point. 1 if there are no reachable modes, and with a tail,
  /// whose slowest mode may hardly move.
  double closed_loop_radius() const override;
  int64_t bytes() const override { return 0; }

  const Law& law() const { return law_; }
  const torch::Tensor& steps() const { return s_; }                  ///< s [m]
  const torch::Tensor& steering() const { return steering_; }        ///< g(s) [m]
  const torch::Tensor& closed_loop() const { return closed_loop_; }  ///< 1 − s g(s) [m]
  double tail_step() const { return tail_step_; }                    ///< s̄; 0 without a tail
  /// The residual of the Riccati equation, with M of the plant (apply/modal_products.h defines what
  /// it is relative to); NaN for a law without a cost.
  /// @throws InvalidArgument if M is not a kernel of this size.
  double riccati_residual(const torch::Tensor& matrix) const;

 private:
  double square(const torch::Tensor& modal) const;
  torch::Tensor reachable(const torch::Tensor& modal) const;
  torch::Tensor costs() const;

  Law law_;
  torch::Tensor s_;
  torch::Tensor steering_;
  torch::Tensor closed_loop_;
  double tail_step_ = 0;
  double tail_steering_ = 1;
};

/// Any gain matrix: u = −Kx, v = Gx with G = I + K [n, n].
class GainController : public Controller {
 public:
  struct Gain {
    torch::Tensor steering;  ///< G [n, n]
    torch::Tensor gain{};    ///< K [n, n], computed without cancellation; undefined: G − I
    /// P [n, n] if the gain is optimal for a problem; otherwise undefined.
    torch::Tensor cost{};
    std::string name = "gain matrix";
    std::string optimal{};  ///< Certificate::optimal
    double residual = std::numeric_limits<double>::quiet_NaN();
    double radius = std::numeric_limits<double>::quiet_NaN();  ///< NaN: unknown
    int64_t rank = -1;  ///< number of modes that P covers, the fastest; −1: all reachable ones
    int64_t iterations = 0;  ///< of the solver that computed the gain
  };
  /// `again` recomputes the gain for another plant; without it the gain is kept.
  GainController(Plant plant, Gain gain, std::function<Gain(const Plant&)> again = {});

  torch::Tensor steer(const Observation& at) const override;
  double merit(const torch::Tensor& x) const override;
  torch::Tensor matrix() const override { return gain_.steering; }
  torch::Tensor gain_matrix() const override;
  torch::Tensor cost_matrix() const override { return gain_.cost; }
  double optimal_cost(const torch::Tensor& x) const override;
  Certificate certificate(const torch::Tensor& matrix = {}) const override;
  std::unique_ptr<Controller> redesigned(const Plant& plant) const override;
  double closed_loop_radius() const override { return std::isnan(gain_.radius) ? 1 : gain_.radius; }

  const Gain& gain() const { return gain_; }

 private:
  Gain gain_;
  std::function<Gain(const Plant&)> again_;
};

/// u = −Kx for a gain [n, n], which is kept when the linearization changes.
/// @throws InvalidArgument unless K is [n, n], of a floating dtype and finite.
std::unique_ptr<Controller> from_gain(const Plant& plant, const torch::Tensor& K);
/// Any function x [n] → u [n], float64. For a quadratic loss x is ŷ − y and u is added to the
/// labels.
std::unique_ptr<Controller> from_function(const Plant& plant,
                                          std::function<torch::Tensor(const torch::Tensor& x)> u);

/// The problem that a design solves: minimize Σ xᵀQx + uᵀRu over all future steps.
struct ControlProblem {
  double q = 1.0;  ///< Q = qI; only q/p affects the gain. The paper's Q = I.
  double p = 0.1;  ///< R = pI. The paper's p = 0.1: slow modes 3.3 times faster.
  std::function<torch::Tensor(const torch::Tensor& s)> shape{};  ///< factors on q, by step (law.h)
  torch::Tensor Q{};  ///< [n, n] PSD, or a diagonal [n], instead of q; undefined: q
  torch::Tensor R{};  ///< [n, n] PD, or a diagonal [n], instead of p; undefined: p
};

/// A row of the table in which `design` looks up names.
struct Design {
  std::string name;
  std::string summary;  ///< for --help
  std::function<std::unique_ptr<Controller>(const Plant&, const ControlProblem&)> make;
};
/// The library's designs: lqr, damped and descent. To add your own, append to a copy.
std::vector<Design> designs();
/// The names of designs().
std::vector<std::string> design_names();
/// @throws InvalidArgument unless the table has this name.
void require_design(std::string_view name, const std::vector<Design>& table = designs());
/// Makes the controller of a plant by a named design.
/// @throws InvalidArgument if the table has no such name (the message lists its names), or as the
///   design.
/// @throws NumericalError as the design.
std::unique_ptr<Controller> design(const Plant& plant, const ControlProblem& problem = {},
                                   std::string_view name = "lqr",
                                   const std::vector<Design>& table = designs());

}  // namespace cdt::control
