#include <cdt/core/error.h>
#include <cdt/train/forms/shared.h>

namespace cdt::train {
namespace {

using torch::Tensor;

class Shared final : public kernel::Linearization {
 public:
  Shared(kernel::LinearizationPtr own, std::shared_ptr<const Ranks> ranks)
      : own_(std::move(own)), ranks_(std::move(ranks)) {}

  const Tensor& outputs() const override { return own_->outputs(); }
  torch::ScalarType dtype() const override { return own_->dtype(); }
  int64_t parameter_count() const override { return own_->parameter_count(); }
  Tensor inputs() const override { return own_->inputs(); }

  Tensor push_forward(const Tensor& U) const override { return own_->push_forward(U); }
  Tensor pull_back(const Tensor& V) const override {
    return ranks_->sum(own_->pull_back(V).to(torch::kFloat64));
  }
  Tensor kernel() const override {
    throw InvalidArgument("several ranks share no kernel of all rows");
  }
  Tensor gram(const Tensor& S) const override { return ranks_->sum(own_->gram(S)); }
  double trace() const override { return ranks_->sum(own_->trace()); }
  double dot(const Tensor& a, const Tensor& b) const override {
    return ranks_->sum(own_->dot(a, b));
  }
  bool lasts() const override { return ranks_->all(own_->lasts()); }

 private:
  kernel::LinearizationPtr own_;
  std::shared_ptr<const Ranks> ranks_;
};

}  // namespace

kernel::LinearizationPtr shared(kernel::LinearizationPtr own, std::shared_ptr<const Ranks> ranks) {
  if (!ranks->several()) return own;
  return std::make_shared<Shared>(std::move(own), std::move(ranks));
}

}  // namespace cdt::train
