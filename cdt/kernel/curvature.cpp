#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/parameter_scope.h>
#include <cdt/kernel/products.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// The iteration's unit vectors, kept from one point of a segment to the next.
struct Directions {
  Tensor u;  ///< [P]
  Tensor v;  ///< [P]
};

Directions random_start(const Model& model, uint64_t seed) {
  torch::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const Tensor drawn = torch::randn({model.parameter_count()}, generator, torch::kFloat64);
  const Tensor unit =
      (drawn / drawn.norm()).to(torch::TensorOptions().dtype(model.dtype()).device(model.device()));
  return {unit, unit};
}

/// `vector` over its norm, which is returned; false where it is zero.
bool normalise(Tensor& vector, double& size) {
  size = vector.norm().item<double>();
  if (!std::isfinite(size))
    throw NumericalError("a second derivative of the network is not finite");
  if (size > 0) vector = vector / size;
  return size > 0;
}

/// w, then u, then v, and again: the value of each is that of the trilinear form.
double iterate(const Model& model, const Tensor& x, Directions& at, int64_t products,
               double& first_value) {
  double best = 0;
  Tensor w;
  for (int64_t k = 0; k < products; ++k) {
    double value = 0;
    if (k % 3 == 0) {
      w = second_derivative(model, x, at.u, at.v);
      if (!normalise(w, value)) return best;
      if (k == 0) first_value = value;
    } else {
      Tensor& moved = k % 3 == 1 ? at.u : at.v;
      Tensor next = hessian_vector_product(model, x, w, k % 3 == 1 ? at.v : at.u);
      if (!normalise(next, value)) return best;
      moved = next;
    }
    best = std::max(best, value);
  }
  return best;
}

}  // namespace

Curvature hessian_norm(const Model& model, const Tensor& x, const CurvatureOptions& options) {
  CDT_REQUIRE(options.products >= 1, "products must be at least 1, not ", options.products);
  Directions at = random_start(model, options.seed);
  double ignored = 0;
  return {iterate(model, x, at, options.products, ignored), 0, options.products};
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
    const int64_t left = options.products - result.products;
    const int64_t budget = left / (options.points - i);
    Directions at{direction, direction};
    double along_path = 0;
    result.norm = std::max(result.norm, iterate(model, x, at, budget, along_path));
    result.along_path = std::max(result.along_path, along_path);
    result.products += budget;
  }
  return result;
}

}  // namespace cdt::kernel
