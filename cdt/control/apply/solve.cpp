#include <cdt/control/apply/solve.h>
#include <cdt/control/apply/steering.h>
#include <cdt/core/check.h>
#include <cdt/core/interrupt.h>

#include <algorithm>
#include <cmath>

namespace cdt::control {

using torch::Tensor;

namespace {

/// Factor on μ if rounding, or a matrix that is not a kernel, leaves no positive definite matrix:
/// once μ exceeds the norm, M + μI is positive definite.
constexpr double kMoreDamping = 4;
constexpr int kMostTries = 500;

class Cholesky : public Solver {
 public:
  explicit Cholesky(const Plant& plant) : plant_(plant), shifted_(plant.matrix()) {
    if (plant.has_modes()) eigenvalues_ = plant.modes().values;
  }

  std::optional<Solution> solve(const Tensor& x, double mu) override {
    Solution solution;
    solution.u = shifted_.solve(x, mu);
    if (!solution.u.defined()) return std::nullopt;
    return solution;
  }
  bool takes_any() const override { return true; }
  double residual(const Tensor& x, const Solution& solution, double mu) override {
    const Tensor left = plant_.matrix().mv(solution.u).add_(solution.u, mu) - x;
    return left.norm().item<double>() /
           std::max(x.norm().item<double>(), std::numeric_limits<double>::min());
  }
  Known largest() const override { return Known::exactly(plant_.largest()); }
  std::optional<Spectrum> spectrum() override {
    if (!eigenvalues_.defined()) {
      eigenvalues_ = decompose_aside(plant_.matrix(), [kernel = plant_.matrix()] {
        return torch::linalg_eigvalsh(kernel).clamp_min(0);
      });
    }
    const double least =
        plant_.rank_tolerance() * eigenvalues_[eigenvalues_.numel() - 1].item<double>();
    return Spectrum{eigenvalues_, (eigenvalues_ <= least).sum().item<int64_t>()};
  }
  bool knows_spectrum() const override { return eigenvalues_.defined(); }
  Tensor probe() const override { return plant_.matrix().diagonal(); }
  std::string name() const override { return "a Cholesky factor of the kernel"; }
  int64_t bytes() const override { return static_cast<int64_t>(plant_.matrix().nbytes()); }

 private:
  Plant plant_;
  ShiftedFactor shifted_;
  Tensor eigenvalues_;  ///< undefined: not computed yet
};

}  // namespace

double Solver::square(const Tensor& x) const { return torch::dot(x, x).item<double>(); }

std::shared_ptr<Solver> make_cholesky(const Plant& plant) {
  return std::make_shared<Cholesky>(plant);
}

SolveController::SolveController(const Plant& plant, double boost, Make make)
    : SolveController(plant, boost, make, make(plant)) {}

SolveController::SolveController(const Plant& plant, double boost, Make make,
                                 std::shared_ptr<Solver> solver)
    : Controller(plant),
      boost_(boost),
      make_(std::move(make)),
      solver_(std::move(solver)),
      damping_(1 / (plant.step_scale() * boost)) {
  require_positive(boost, "the boost of slow modes");
  CDT_REQUIRE(solver_ != nullptr, "a damped step needs a solver");
}

Solver::Solution SolveController::solve(const Tensor& x) const {
  for (int tries = 0; tries < kMostTries; ++tries, damping_ *= kMoreDamping) {
    if (auto solution = solver_->solve(x, damping_)) {
      last_x_ = x;
      last_ = *solution;
      return last_;
    }
  }
  throw NumericalError("the equation of a step has no solution however strong the damping");
}

Tensor SolveController::steer(const Observation& at) const {
  require_error(at.x, plant_.size());
  const Tensor u = solve(at.x).u;
  CDT_REQUIRE(u.defined(), "a step without a kernel, by ", solver_->name(),
              ", moves parameters: it steers no labels");
  return u / plant_.step_scale();
}

Tensor SolveController::predict(const Observation& at) const { return step(at).left; }

Step SolveController::step(const Observation& at, double share) const {
  const Tensor& x = at.x;
  const Solver::Solution found = solve(x);
  Step step;
  step.u = found.u;
  step.delta = found.delta;
  step.complete = found.complete;
  if (found.left.defined()) {
    step.left = x + share * (found.left - x);
  } else {
    step.left = x * (1 - share) + found.u * (share * damping_);  // Mu = x − μu
  }
  step.merit = merit(step.left);
  if (solver_->takes_any()) {
    step.augment = (found.u / plant_.step_scale() - x).norm().item<double>();
  }
  return step;
}

Certificate SolveController::certificate(const Tensor& matrix) const {
  if (!last_x_.defined() && solver_->takes_any()) {
    const auto n = static_cast<double>(plant_.size());
    solve(torch::full({plant_.size()}, 1 / std::sqrt(n), plant_.matrix().options()));
  }
  Certificate found;
  const bool asked = matrix.defined() || solver_->knows_spectrum();
  if (const auto known = asked ? solver_->spectrum() : std::nullopt) {
    found = damped_certificate(damping_, known->eigenvalues, known->nullity, plant_.step_scale());
  } else {
    found = damped_certificate(damping_, solver_->largest(), {});
  }
  found.controller = "damped, by " + solver_->name();
  found.rate = plant_.rate();
  found.gain = 1 / (plant_.step_scale() * damping_);
  if (last_x_.defined()) found.residual = solver_->residual(last_x_, last_, damping_);
  found.digest =
      digest_of({torch::tensor({plant_.rate(), damping_}, torch::kFloat64), solver_->probe()});
  return found;
}

std::unique_ptr<Controller> SolveController::redesigned(const Plant& plant) const {
  const auto solver = plant.shares(plant_) ? solver_ : make_(plant);
  return std::unique_ptr<Controller>(new SolveController(plant, boost_, make_, solver));
}

}  // namespace cdt::control
