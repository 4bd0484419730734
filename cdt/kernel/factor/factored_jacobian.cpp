#include <cdt/core/error.h>
#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/factor/factored_jacobian.h>
#include <cdt/kernel/product/factor_product.h>
#include <cdt/kernel/products.h>

namespace cdt::kernel {

using torch::Tensor;

FactoredJacobian::FactoredJacobian(Model model, Tensor x, const NtkOptions& options)
    : model_(std::move(model)),
      x_(std::move(x)),
      slice_(slice_entries(options.memory_bytes, model_.device())),
      found_(ntk_with_factors(model_, x_, options)),
      size_(theta().size(0)) {
  if (found_.factors) found_.factors->pulled_back.clear();
}

void FactoredJacobian::require_vector(const Tensor& v, int64_t length) const {
  CDT_REQUIRE(v.defined() && v.dim() == 1 && v.size(0) == length, "expected a vector [", length,
              "], got ", v.defined() ? v.sizes() : torch::IntArrayRef());
  CDT_REQUIRE((v.scalar_type() == model_.dtype() || v.scalar_type() == torch::kFloat64) &&
                  v.device() == model_.device(),
              "a vector must be ", model_.dtype(), " or float64 on ", model_.device(), ", got ",
              v.scalar_type(), " on ", v.device());
}

Tensor FactoredJacobian::push_forward(const Tensor& u) const {
  require_vector(u, model_.parameter_count());
  if (!by_factors()) {
    return jacobian_vector_product(model_, x_, u.to(model_.dtype())).to(u.scalar_type());
  }
  const KernelScope scope;
  const torch::NoGradGuard no_graph;
  const Tensor found = torch::zeros({size_, 1}, u.options());
  add_push_forward(model_, found_.factors->groups, u.unsqueeze(0), slice_, found);
  return found.squeeze(1);
}

Tensor FactoredJacobian::pull_back(const Tensor& v) const {
  require_vector(v, size_);
  if (!by_factors()) {
    return vector_jacobian_product(model_, x_, v.to(model_.dtype())).to(v.scalar_type());
  }
  const KernelScope scope;
  const torch::NoGradGuard no_graph;
  const Tensor found = torch::zeros({1, model_.parameter_count()}, v.options());
  add_pull_back(model_, found_.factors->groups, v.unsqueeze(1), slice_, found);
  return found.squeeze(0);
}

}  // namespace cdt::kernel
