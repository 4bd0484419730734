// The quantile q of the targets: q|e| for outputs below their targets, (1 − q)|e| above, with √(e²
// + w²) instead of |e| for curvature, shifted to a minimum of 0.
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/loss/parts/separable.h>

#include <cmath>

namespace cdt::loss {
namespace {

using torch::Tensor;

/// In units of the targets, which tables scale to a deviation of 1.
constexpr double kWidth = 0.02;

class Quantile : public Separable {
 public:
  explicit Quantile(double q) : q_(q) {
    CDT_REQUIRE(q > 0 && q < 1, "a quantile lies between 0 and 1, not at ", q);
  }

  std::string name() const override { return with_argument("quantile", q_); }
  Traits traits() const override { return {.curvature_bound = 0.5 / kWidth}; }

 protected:
  Tensor height(const Tensor& outputs, const Tensor& targets) const override {
    const Tensor error = outputs - targets;
    return smooth(error) / 2 + (0.5 - q_) * error - kWidth * std::sqrt(q_ * (1 - q_));
  }
  Tensor slope(const Tensor& outputs, const Tensor& targets) const override {
    const Tensor error = outputs - targets;
    return error / smooth(error) / 2 + (0.5 - q_);
  }
  Tensor bend(const Tensor& outputs, const Tensor& targets) const override {
    return 0.5 / smooth(outputs - targets);
  }

 private:
  static Tensor smooth(const Tensor& error) { return (error.square() + kWidth * kWidth).sqrt(); }

  double q_;
};

}  // namespace

LossPtr quantile(double q) { return std::make_shared<Quantile>(q); }

}  // namespace cdt::loss
