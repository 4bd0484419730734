#include <cdt/core/error.h>
#include <cdt/kernel/local_model.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/own_memory.h>
#include <cdt/kernel/record/parameter_scope.h>
#include <cdt/kernel/record/recorder.h>

namespace cdt::kernel {

using torch::Tensor;

LocalModel::LocalModel(Model model, const Tensor& x) : model_(std::move(model)), x_(x) {
  require_own_memory(model_);  // predict() restores them
  const torch::NoGradGuard no_grad;
  for (const Tensor& p : model_.parameters()) origin_.push_back(p.detach().clone());
  watch(model_, [&] { outputs_ = evaluate(model_, x_).reshape({-1}).to(torch::kFloat64); });
}

LocalModel::LocalModel(Model model, Tensor x, std::vector<Tensor> origin, const Tensor& outputs)
    : model_(std::move(model)),
      x_(std::move(x)),
      origin_(std::move(origin)),
      outputs_(outputs.detach().reshape({-1}).to(torch::kFloat64)) {
  CDT_REQUIRE(origin_.size() == model_.parameters().size(), "the model has ",
              model_.parameters().size(), " parameters, these are ", origin_.size());
}

Tensor LocalModel::displacement() const {
  const torch::NoGradGuard no_grad;
  std::vector<Tensor> moved;
  for (size_t k = 0; k < origin_.size(); ++k) {
    moved.push_back(model_.parameters()[k].detach() - origin_[k]);
  }
  return flatten(model_, moved);
}

Tensor LocalModel::predict(const Tensor& displacement) const {
  const ParameterCopyScope at_origin(model_, origin_);
  return outputs_ + jacobian_vector_product(model_, x_, displacement).to(torch::kFloat64);
}

double LocalModel::error() const {
  const torch::NoGradGuard no_grad;
  const Tensor truth = evaluate(model_, x_).reshape({-1}).to(torch::kFloat64);
  return (truth - predict()).norm().item<double>();
}

}  // namespace cdt::kernel
