#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/autograd_scope.h>
#include <cdt/kernel/backward.h>
#include <cdt/kernel/operator.h>
#include <cdt/kernel/recorder.h>

namespace cdt::kernel {

using torch::Tensor;

NtkOperator::NtkOperator(Model model, const Tensor& x) : model_(std::move(model)) {
  const KernelScope scope;
  outputs_ = differentiable_outputs(model_, x);
  seed_ = torch::zeros_like(outputs_).requires_grad_();
  const auto pulled = gradients_at(model_.parameters(), outputs_, seed_, Graph::kExtended);
  require_influence(pulled);
  pulled_back_ = flatten(model_, pulled);
  for (const Tensor& p : model_.parameters()) versions_.push_back(p._version());
}

Tensor NtkOperator::apply(const Tensor& v) const {
  const KernelScope scope;
  require_shape(v, {size()}, "v");
  CDT_REQUIRE(v.scalar_type() == model_.dtype() && v.device() == model_.device(), "v must be ",
              model_.dtype(), " on ", model_.device(), ", not ", v.scalar_type(), " on ",
              v.device());
  require_finite(v, "v");
  for (size_t i = 0; i < versions_.size(); ++i) {
    CDT_REQUIRE(model_.parameters()[i]._version() == versions_[i], "parameter ", i,
                " changed since the operator was made; make a new one");
  }
  const auto pulled =
      gradients_at(model_.parameters(), outputs_, v.view_as(outputs_), Graph::kKept);
  return gradients_at({seed_}, pulled_back_, flatten(model_, pulled), Graph::kKept)[0].reshape(
      {-1});
}

}  // namespace cdt::kernel
