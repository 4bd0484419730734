// For counts y ≥ 0 with mean μ = e^ŷ: e^ŷ − yŷ, shifted to a minimum of 0. Its mean is half the
// mean deviance.
#include <cdt/loss/parts/separable.h>

namespace cdt::loss {
namespace {

using torch::Tensor;

/// If ŷ is this close to log y, ω is computed by a series.
constexpr double kNear = 1e-3;
/// Keeps a division by √ω finite where μ underflows.
constexpr double kLeastBend = 1e-300;

class Poisson : public Separable {
 public:
  std::string name() const override { return "poisson"; }
  Traits traits() const override {
    return {.keeps_units = true, .least_target = 0, .in_words = "half the mean deviance"};
  }
  Tensor mean(const Tensor& outputs) const override { return outputs.exp(); }
  /// √μ; for small means at least that of one count.
  Tensor spread(const Tensor& mean) const override { return (mean + 1).sqrt(); }
  double third_derivative_bound(const Tensor& from, const Tensor& to,
                                const Tensor& targets) const override {
    return torch::maximum(from, to).max().exp().item<double>() *
           scale(targets.size(0), targets.size(1));
  }

 protected:
  Tensor height(const Tensor& outputs, const Tensor& targets) const override {
    return outputs.exp() - targets * outputs + (torch::xlogy(targets, targets) - targets);
  }
  Tensor slope(const Tensor& outputs, const Tensor& targets) const override {
    return outputs.exp() - targets;
  }
  /// Below log y, where μ is too small: the slope of the chord from there to log y, which a step
  /// must not pass. With μ alone it would overshoot by far: y/μ.
  Tensor bend(const Tensor& outputs, const Tensor& targets) const override {
    const Tensor mu = outputs.exp();
    const Tensor way = (targets.log() - outputs).clamp_min(0);
    const Tensor chord = torch::where(way > kNear, (targets - mu) / way, mu * (1 + way / 2));
    return chord.clamp_min(kLeastBend);
  }
};

}  // namespace

LossPtr poisson() {
  static const LossPtr only = std::make_shared<Poisson>();
  return only;
}

}  // namespace cdt::loss
