/// Damped steps as a controller: the least of ‖x + TJδ‖² + μ‖δ‖² with μ = 1/(αc√(1 + q/p)).
///
/// A mode with step s = αcλ is left with 1/(1 + s√(1 + q/p)) of its error, as the controller lqr(q,
/// p) leaves it to first order where s is small, and with next to nothing where s is large. It is
/// the law `damped` without modes: whoever solves its equation need not decompose the kernel, or
/// form one.
#pragma once

#include <cdt/control/apply/shifted_factor.h>
#include <cdt/control/controller.h>
#include <cdt/core/error.h>

#include <functional>
#include <memory>
#include <optional>

namespace cdt::control {

/// How the equation of a damped step is solved, of one linearization.
class Solver {
 public:
  /// δ = −(TJ)ᵀu with (M + μI)u = x, or δ itself.
  struct Solution {
    torch::Tensor u;      ///< [n]
    torch::Tensor delta;  ///< [P]
    torch::Tensor left;   ///< x + TJδ; undefined: μu
    bool complete = true;
    double residual = std::numeric_limits<double>::quiet_NaN();  ///< as it has measured it itself
  };

  virtual ~Solver() = default;
  /// None where rounding leaves no positive definite matrix.
  virtual std::optional<Solution> solve(const torch::Tensor& x, double mu) = 0;
  /// Whether x may be any; else it is that of the linearization.
  virtual bool takes_any() const = 0;
  /// ‖M u + μu − x‖/‖x‖, or what stands for it in the parameters.
  virtual double residual(const torch::Tensor& x, const Solution& solution, double mu) = 0;
  /// ‖x‖², over all that it is spread over.
  virtual double square(const torch::Tensor& x) const;
  /// λ_max of M, as far as it is known.
  virtual Known largest() const = 0;
  /// All n, ascending, and how many of them no label moves; none if there is no matrix.
  struct Spectrum {
    torch::Tensor eigenvalues;
    int64_t nullity = 0;
  };
  virtual std::optional<Spectrum> spectrum() = 0;
  /// Whether that is known already.
  virtual bool knows_spectrum() const { return false; }
  /// Numbers that differ where solutions do, for a digest.
  virtual torch::Tensor probe() const = 0;
  virtual std::string name() const = 0;  ///< "a Cholesky factor of the kernel"
  virtual int64_t bytes() const { return 0; }
};

/// By a Cholesky factor of M + μI, of a plant with a matrix: O(n³/3) for each rate, some fifteen
/// times cheaper than modes.
std::shared_ptr<Solver> make_cholesky(const Plant& plant);

class SolveController : public Controller {
 public:
  using Make = std::function<std::shared_ptr<Solver>(const Plant& plant)>;

  /// `boost` = √(1 + q/p). For another linearization `make` makes another solver.
  /// @throws InvalidArgument unless the boost is positive and finite, and there is a solver.
  SolveController(const Plant& plant, double boost, Make make = make_cholesky);

  /// u/(αc)
  /// @throws InvalidArgument if the solver knows δ alone.
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
  /// At μ; where rounding leaves no positive definite matrix, at a stronger one from then on.
  Solver::Solution solve(const torch::Tensor& x) const;

  double boost_;
  Make make_;
  std::shared_ptr<Solver> solver_;
  mutable double damping_;
  mutable torch::Tensor last_x_;  ///< of the last solution; undefined: there is none
  mutable Solver::Solution last_;
};

}  // namespace cdt::control
