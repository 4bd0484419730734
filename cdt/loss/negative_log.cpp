// −yᵀlog ŷ on probabilities: the paper's cross entropy (eq. CEloss), for analysis.
#include <cdt/core/error.h>
#include <cdt/loss/loss.h>

namespace cdt::loss {
namespace {

using torch::Tensor;

class NegativeLog : public Loss {
 public:
  std::string name() const override { return "negative-log"; }
  Traits traits() const override { return {.trainable = false}; }
  double scale(int64_t /*samples*/, int64_t /*outputs*/) const override { return 1; }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    return -(targets * outputs.log()).sum(1);
  }
  void require_defined(const Tensor& outputs, const Tensor& /*targets*/,
                       Order /*order*/) const override {
    const double lowest = outputs.min().item<double>();
    CDT_REQUIRE(lowest > 0, "−yᵀlog ŷ needs probabilities above zero; the smallest is ", lowest,
                ". Use the cross entropy on logits");
  }
  double third_derivative_bound(const Tensor& from, const Tensor& to,
                                const Tensor& targets) const override {
    return (2 * targets.abs() / torch::minimum(from, to).pow(3)).max().item<double>();
  }
};

}  // namespace

LossPtr negative_log() {
  static const LossPtr only = std::make_shared<NegativeLog>();
  return only;
}

}  // namespace cdt::loss
