// ½‖e‖², e = ŷ − y, in its three scales.
#include <cdt/loss/loss.h>

namespace cdt::loss {
namespace {

using torch::Tensor;

class Squares : public Loss {
 public:
  Squares(std::string name, double (*scale)(double n)) : name_(std::move(name)), scale_(scale) {}

  std::string name() const override { return name_; }
  Traits traits() const override { return {.quadratic = true, .curvature_bound = 1}; }
  double scale(int64_t samples, int64_t outputs) const override {
    return scale_(static_cast<double>(samples * outputs));
  }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets).square().sum(1) / 2;
  }
  Tensor graph(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets.to(outputs.scalar_type())).square().sum() *
           (scale(targets.size(0), targets.size(1)) / 2);
  }
  Tensor gradient(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets) * scale(targets.size(0), targets.size(1));
  }
  Tensor hessian(const Tensor& /*outputs*/, const Tensor& targets) const override {
    return torch::diag_embed(torch::full_like(targets, scale(targets.size(0), targets.size(1))));
  }
  double third_derivative_bound(const Tensor& /*from*/, const Tensor& /*to*/,
                                const Tensor& /*targets*/) const override {
    return 0;
  }
  Residuals residuals(const Tensor& outputs, const Tensor& targets,
                      const Tensor& weights) const override {
    Residuals found;
    found.D = torch::eye(targets.size(1), targets.options());
    found.scale =
        weights.defined() ? weights.sqrt().view(targets.sizes()) : torch::ones_like(targets);
    found.all_one = !weights.defined();
    found.S = torch::diag_embed(found.scale);
    found.e = (found.scale * (outputs - targets)).reshape({-1});
    return found;
  }
  ResidualShape residual_shape(int64_t outputs) const override { return {outputs, true}; }
  Tensor sums(const Tensor& outputs, const Tensor& targets, const Tensor& weights) const override {
    const Tensor error = (outputs - targets).reshape({-1});
    const Tensor square = torch::dot(error, error);
    return weights.defined() ? torch::stack({square, torch::dot(error, weights * error)})
                             : square.view({1});
  }
  Assessment assessment(std::span<const double> sums, int64_t samples,
                        int64_t outputs) const override {
    const double c = scale(samples, outputs);
    const double misfit = sums.back();
    return {c * sums.front() / 2, misfit, c * misfit / 2, misfit};
  }

 private:
  std::string name_;
  double (*scale_)(double n);
};

}  // namespace

LossPtr sse() {
  static const LossPtr only = std::make_shared<Squares>("sse", [](double) { return 1.0; });
  return only;
}

LossPtr half_mse() {
  static const LossPtr only =
      std::make_shared<Squares>("half-mse", [](double n) { return 1.0 / n; });
  return only;
}

LossPtr mse() {
  static const LossPtr only = std::make_shared<Squares>("mse", [](double n) { return 2.0 / n; });
  return only;
}

}  // namespace cdt::loss
