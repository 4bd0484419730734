#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/local_model.h>
#include <cdt/kernel/path.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/parameter_scope.h>

#include <limits>

namespace cdt::kernel {
namespace {

using torch::Tensor;

bool is_finite(const Tensor& values) { return torch::isfinite(values).all().item<bool>(); }

}  // namespace

TrainingPath record_path(const Model& model, const Tensor& x, double learning_rate,
                         const std::function<Tensor(const Tensor& outputs)>& seed,
                         const PathOptions& options) {
  CDT_REQUIRE(options.steps >= 1, "a path needs at least one step, got ", options.steps);
  require_positive(learning_rate, "learning_rate");
  TrainingPath path;
  bool finite = true;
  {
    std::vector<Tensor> own;
    for (const Tensor& p : model.parameters()) own.push_back(p.detach().clone());
    const ParameterScope on_a_copy(model, own);
    const LocalModel local(model, x);
    std::vector<Tensor> outputs{local.outputs()};
    std::vector<Tensor> local_outputs{local.outputs()};
    std::vector<Tensor> lengths{torch::zeros({}, local.outputs().options())};
    for (int64_t k = 0; k < options.steps && finite; ++k) {
      const Tensor cotangent = seed(outputs.back()).to(model.device(), model.dtype());
      const auto step = unflatten(model, vector_jacobian_product(model, x, cotangent));
      const torch::NoGradGuard no_grad;
      for (size_t i = 0; i < step.size(); ++i) model.parameters()[i].sub_(step[i], learning_rate);
      outputs.push_back(model.forward(x).reshape({-1}).to(torch::kFloat64));
      const Tensor moved = local.displacement();
      finite = is_finite(outputs.back()) && is_finite(moved);
      local_outputs.push_back(
          finite ? local.predict(moved)
                 : torch::full_like(outputs[0], std::numeric_limits<double>::quiet_NaN()));
      finite = finite && is_finite(local_outputs.back());
      lengths.push_back(moved.norm().to(torch::kFloat64));
    }
    path.outputs = torch::stack(outputs);
    path.local_outputs = torch::stack(local_outputs);
    path.displacements = torch::stack(lengths);
    if (finite) {
      try {
        path.curvature =
            hessian_norm_on_segment(model, x, -local.displacement(), options.curvature);
      } catch (const NumericalError&) {
        finite = false;  // second derivatives overflow at such a distance
      }
    }
  }
  if (!finite) path.curvature = hessian_norm(model, x, options.curvature);
  return path;
}

}  // namespace cdt::kernel
