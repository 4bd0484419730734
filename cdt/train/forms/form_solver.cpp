#include <cdt/core/tolerance.h>
#include <cdt/train/forms/form_solver.h>

#include <limits>

namespace cdt::train {
namespace {

using control::Known;
using torch::Tensor;

class FormSolver : public control::Solver {
 public:
  FormSolver(std::function<std::unique_ptr<RidgeForm>()> make, std::shared_ptr<const Ranks> ranks)
      : make_(std::move(make)),
        ranks_(std::move(ranks)),
        form_(make_()),
        largest_(form_->largest_eigenvalue()) {}  // computed before the parameters can move

  std::optional<Solution> solve(const Tensor&, double mu) override {
    if (used_ && !form_->outlasts_writes()) form_ = make_();
    used_ = true;
    auto step = form_->step(0, mu);
    if (!step) return std::nullopt;
    last_ = *std::move(step);
    Solution solution;
    solution.u = last_.u;
    solution.delta = last_.delta;
    solution.left = last_.residuals;
    solution.complete = last_.complete;
    return solution;
  }
  bool takes_any() const override { return false; }
  double residual(const Tensor&, const Solution&, double mu) override {
    return form_->residual(last_, 0, mu);
  }
  double square(const Tensor& x) const override { return ranks_->sum(Solver::square(x)); }
  /// With products only, the estimate is a lower bound.
  Known largest() const override {
    return form_->matrix().defined()
               ? Known::exactly(largest_)
               : Known{kUnknown, largest_, std::numeric_limits<double>::infinity()};
  }
  /// One eigenvalue per residual: A and K have the same nonzero eigenvalues.
  std::optional<Spectrum> spectrum() override {
    const Tensor matrix = form_->matrix();
    if (!matrix.defined()) return std::nullopt;
    const int64_t n = form_->residuals().numel();
    Tensor all = torch::linalg_eigvalsh(matrix.to(torch::kFloat64)).clamp_min(0);
    if (const int64_t own = all.numel(); own < n) {
      all = torch::cat({torch::zeros({n - own}, all.options()), all});
    } else {
      all = all.narrow(0, own - n, n);
    }
    const double least = tol::rank_of_computed(matrix.size(0), torch::kFloat32) * largest_;
    return Spectrum{all, (all <= least).sum().item<int64_t>()};
  }
  Tensor probe() const override { return torch::tensor({largest_}, torch::kFloat64); }
  std::string name() const override { return form_->solver(); }

 private:
  std::function<std::unique_ptr<RidgeForm>()> make_;
  std::shared_ptr<const Ranks> ranks_;
  std::unique_ptr<RidgeForm> form_;
  double largest_;     ///< largest eigenvalue of the kernel of residuals, possibly approximate
  bool used_ = false;  ///< parameters may have been overwritten since it was made
  RidgeStep last_;
};

}  // namespace

std::shared_ptr<control::Solver> make_form_solver(std::function<std::unique_ptr<RidgeForm>()> make,
                                                  std::shared_ptr<const Ranks> ranks) {
  return std::make_shared<FormSolver>(std::move(make), std::move(ranks));
}

}  // namespace cdt::train
