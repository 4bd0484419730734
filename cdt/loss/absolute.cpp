// |e|: no curvature, no derivative where e is zero.
#include <cdt/core/error.h>
#include <cdt/loss/loss.h>

namespace cdt::loss {
namespace {

using torch::Tensor;

class Absolute : public Loss {
 public:
  std::string name() const override { return "mae"; }
  Traits traits() const override { return {.curvature_bound = 0}; }
  double scale(int64_t samples, int64_t outputs) const override {
    return 1 / static_cast<double>(samples * outputs);
  }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets).abs().sum(1);
  }
  Tensor graph(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets.to(outputs.scalar_type())).abs().mean();
  }
  Tensor gradient(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets).sign() / static_cast<double>(targets.numel());
  }
  Tensor hessian(const Tensor& /*outputs*/, const Tensor& targets) const override {
    return torch::diag_embed(torch::zeros_like(targets));
  }
  void require_defined(const Tensor& outputs, const Tensor& targets, Order order) const override {
    CDT_REQUIRE(order == Order::kValue || (outputs != targets).all().item<bool>(),
                "the mean absolute error has no derivatives where an output equals its label, as "
                "one does here");
  }
  double third_derivative_bound(const Tensor& from, const Tensor& to,
                                const Tensor& targets) const override {
    CDT_REQUIRE(((from - targets) * (to - targets) > 0).all().item<bool>(),
                "between these outputs one equals its label, where the mean absolute error has no "
                "derivatives");
    return 0;
  }
  Tensor sums(const Tensor& outputs, const Tensor& targets,
              const Tensor& /*weights*/) const override {
    const Tensor error = (outputs - targets).reshape({-1});
    return torch::stack({torch::dot(error, error), error.abs().mean()});
  }
  Assessment assessment(std::span<const double> sums, int64_t /*samples*/,
                        int64_t /*outputs*/) const override {
    return {sums[1], sums[0], sums[1], sums[0]};
  }
};

}  // namespace

LossPtr mae() {
  static const LossPtr only = std::make_shared<Absolute>();
  return only;
}

}  // namespace cdt::loss
