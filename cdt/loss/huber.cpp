// ½e² up to |e| = δ, δ(|e| − ½δ) beyond: PyTorch's huber_loss.
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/loss/parts/separable.h>

namespace cdt::loss {
namespace {

using torch::Tensor;

class Huber : public Separable {
 public:
  explicit Huber(double delta) : delta_(delta) { require_positive(delta, "huber's δ"); }

  std::string name() const override { return with_argument("huber", delta_); }
  Traits traits() const override { return {.curvature_bound = 1}; }

 protected:
  Tensor height(const Tensor& outputs, const Tensor& targets) const override {
    const Tensor size = (outputs - targets).abs();
    const Tensor inside = size.clamp_max(delta_);
    return inside * (size - inside / 2);
  }
  Tensor slope(const Tensor& outputs, const Tensor& targets) const override {
    return (outputs - targets).clamp(-delta_, delta_);
  }
  Tensor bend(const Tensor& outputs, const Tensor& targets) const override {
    return delta_ / (outputs - targets).abs().clamp_min(delta_);
  }

 private:
  double delta_;
};

}  // namespace

LossPtr huber(double delta) { return std::make_shared<Huber>(delta); }

}  // namespace cdt::loss
