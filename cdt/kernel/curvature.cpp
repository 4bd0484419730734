#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/parameter_scope.h>
#include <cdt/kernel/products.h>

#include <algorithm>
#include <cmath>

namespace cdt::kernel {
namespace {

using torch::Tensor;

Tensor random_unit(const Model& model, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const Tensor drawn = torch::randn({model.parameter_count()}, generator, torch::kFloat64);
  return (drawn / drawn.norm()).to(model.device(), model.dtype());
}

/// From u = v = start: the best w, then u, then v, and again. The value of each is that of the
/// trilinear form; the first is the curvature along the start.
Curvature iterate(const Model& model, const Tensor& x, const Tensor& start, int64_t products) {
  Curvature found;
  Tensor w, u = start, v = start;
  while (found.products < products) {
    const int64_t turn = found.products++ % 3;
    const Tensor next = turn == 0   ? second_derivative(model, x, u, v)
                        : turn == 1 ? hessian_vector_product(model, x, w, v)
                                    : hessian_vector_product(model, x, w, u);
    const double value = next.norm().item<double>();
    if (!std::isfinite(value)) {
      throw NumericalError("a second derivative of the network is not finite");
    }
    if (value == 0) break;
    (turn == 0 ? w : turn == 1 ? u : v) = next / value;
    if (found.products == 1) found.along_path = value;
    found.norm = std::max(found.norm, value);
  }
  return found;
}

}  // namespace

Curvature hessian_norm(const Model& model, const Tensor& x, const CurvatureOptions& options) {
  CDT_REQUIRE(options.products >= 1, "products must be at least 1, not ", options.products);
  Curvature found = iterate(model, x, random_unit(model, options.seed), options.products);
  found.along_path = 0;
  return found;
}

Curvature hessian_norm_on_segment(const Model& model, const Tensor& x, const Tensor& displacement,
                                  const CurvatureOptions& options) {
  CDT_REQUIRE(options.points >= 2, "points must be at least 2, not ", options.points);
  CDT_REQUIRE(options.products >= options.points, "products must be at least the ", options.points,
              " points, not ", options.products);
  require_shape(displacement, {model.parameter_count()}, "displacement");
  require_finite(displacement, "displacement");
  const double length = displacement.norm().item<double>();
  if (length == 0) return hessian_norm(model, x, options);

  const Tensor direction = displacement / length;
  std::vector<Tensor> origin;
  for (const Tensor& p : model.parameters()) origin.push_back(p.detach().clone());
  const auto moved = unflatten(model, displacement);
  Curvature result;
  for (int64_t i = 0; i < options.points; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(options.points - 1);
    std::vector<Tensor> values;
    for (size_t k = 0; k < origin.size(); ++k) values.push_back(origin[k] + share * moved[k]);
    const ParameterScope there(model, values);
    const int64_t budget = (options.products - result.products) / (options.points - i);
    const Curvature here = iterate(model, x, direction, budget);
    result.norm = std::max(result.norm, here.norm);
    result.along_path = std::max(result.along_path, here.along_path);
    result.products += here.products;
    if (here.norm == 0) {  // the path is straight here; other directions may not be
      const Curvature elsewhere =
          iterate(model, x, random_unit(model, options.seed), budget - here.products);
      result.norm = std::max(result.norm, elsewhere.norm);
      result.products += elsewhere.products;
    }
  }
  return result;
}

}  // namespace cdt::kernel
