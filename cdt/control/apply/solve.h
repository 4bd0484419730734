/// Damped steps as a controller: minimize ‖x + TJδ‖² + μ‖δ‖² with μ = 1/(αc√(1 + q/p)).
///
/// A mode with step s = αcλ keeps 1/(1 + s√(1 + q/p)) of its error: to first order the same as
/// under lqr(q, p) for small s, and almost nothing for large s. It is the law `damped` without
/// modes: solving its equation requires neither the decomposition of the kernel nor the kernel
/// itself.
#pragma once

#include <cdt/control/apply/shifted_factor.h>
#include <cdt/control/controller.h>
#include <cdt/core/error.h>

#include <functional>
#include <memory>
#include <optional>

namespace cdt::control {

/// Solves the equation of a damped step of one linearization.
class Solver {
 public:
  /// δ = −(TJ)ᵀu with (M + μI)u = x, or δ itself.
  struct Solution {
    torch::Tensor u;      ///< [n]
    torch::Tensor delta;  ///< [P]
    torch::Tensor left;   ///< x + TJδ; undefined: μu
    bool complete = true;
    double residual = std::numeric_limits<double>::quiet_NaN();  ///< measured by the solver
  };

  virtual ~Solver() = default;
  /// Empty if rounding leaves no positive definite matrix.
  virtual std::optional<Solution> solve(const torch::Tensor& x, double mu) = 0;
  /// Whether x may be any vector; otherwise it must be that of the linearization.
  virtual bool takes_any() const = 0;
  /// ‖M u + μu − x‖/‖x‖, or the corresponding residual in the parameters.
  virtual double residual(const torch::Tensor& x, const Solution& solution, double mu) = 0;
  /// ‖x‖², summed over all ranks that share x.
  virtual double square(const torch::Tensor& x) const;
  /// λ_max of M, exact or bounded.
  virtual Known largest() const = 0;
  /// All n eigenvalues, ascending, and the number of null ones; empty if there is no matrix.
  struct Spectrum {
    torch::Tensor eigenvalues;
    int64_t nullity = 0;
  };
  virtual std::optional<Spectrum> spectrum() = 0;
  /// Whether `spectrum` is already computed.
  virtual bool knows_spectrum() const { return false; }
  /// Numbers that differ if the solutions do, for a digest.
  virtual torch::Tensor probe() const = 0;
  virtual std::string name() const = 0;  ///< "a Cholesky factor of the kernel"
  virtual int64_t bytes() const { return 0; }
};

/// Solves by a Cholesky factor of M + μI, for a plant with a matrix: O(n³/3) per rate, about
/// fifteen times cheaper than modes.
std::shared_ptr<Solver> make_cholesky(const Plant& plant);

class SolveController : public Controller {
 public:
  using Make = std::function<std::shared_ptr<Solver>(const Plant& plant)>;

  /// `boost` = √(1 + q/p). `make` makes the solver of each linearization.
  /// @throws InvalidArgument unless the boost is positive and finite, and there is a solver.
  SolveController(const Plant& plant, double boost, Make make = make_cholesky);

  /// u/(αc)
  /// @throws InvalidArgument if the solver returns only δ.
  torch::Tensor steer(const Observation& at) const override;
  torch::Tensor predict(const Observation& at) const override;
  Step step(const Observation& at, double share = 1) const override;
  double merit(const torch::Tensor& x) const override { return solver_->square(x); }
  Certificate certificate(const torch::Tensor& matrix = {}) const override;
  std::unique_ptr<Controller> redesigned(const Plant& plant) const override;
  int64_t bytes() const override { return solver_->bytes(); }

  double damping() const { return damping_; }  ///< μ of the last step; before it, of the next one

 private:
  SolveController(const Plant& plant, double boost, Make make, std::shared_ptr<Solver> solver);
  /// Solves at μ; if rounding leaves no positive definite matrix, increases μ permanently.
  Solver::Solution solve(const torch::Tensor& x) const;

  double boost_;
  Make make_;
  std::shared_ptr<Solver> solver_;
  mutable double damping_;
  mutable torch::Tensor last_x_;  ///< x of the last solution; undefined: none yet
  mutable Solver::Solution last_;
};

}  // namespace cdt::control
