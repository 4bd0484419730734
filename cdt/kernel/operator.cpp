#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/autograd_scope.h>
#include <cdt/kernel/operator.h>
#include <cdt/kernel/recorder.h>

namespace cdt::kernel {

using torch::Tensor;

NtkOperator::NtkOperator(Model model, const Tensor& x) : model_(std::move(model)) {
  const AutogradScope scope;
  outputs_ = differentiable_outputs(model_, x);
  seed_ = torch::zeros_like(outputs_).requires_grad_();
  const auto pulled = torch::autograd::grad({outputs_}, model_.parameters(), {seed_},
                                            /*retain_graph=*/true, /*create_graph=*/true,
                                            /*allow_unused=*/true);
  require_influence(pulled);
  pulled_back_ = flatten(model_, pulled);
  for (const Tensor& p : model_.parameters()) versions_.push_back(p._version());
}

Tensor NtkOperator::apply(const Tensor& v) const {
  const AutogradScope scope;
  require_shape(v, {size()}, "v");
  CDT_REQUIRE(v.scalar_type() == model_.dtype() && v.device() == model_.device(), "v must be ",
              model_.dtype(), " on ", model_.device(), ", not ", v.scalar_type(), " on ",
              v.device());
  require_finite(v, "v");
  for (size_t i = 0; i < versions_.size(); ++i) {
    CDT_REQUIRE(model_.parameters()[i]._version() == versions_[i], "parameter ", i,
                " changed since the operator was made; make a new one");
  }
  const auto pulled = torch::autograd::grad({outputs_}, model_.parameters(), {v.view_as(outputs_)},
                                            /*retain_graph=*/true, /*create_graph=*/false,
                                            /*allow_unused=*/true);
  return torch::autograd::grad({pulled_back_}, {seed_}, {flatten(model_, pulled)},
                               /*retain_graph=*/true)[0]
      .reshape({-1});
}

}  // namespace cdt::kernel
