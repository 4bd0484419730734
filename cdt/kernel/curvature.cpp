#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/parameter_scope.h>

#include <algorithm>
#include <cmath>

namespace cdt::kernel {
namespace {

using torch::Tensor;

constexpr const char* kNotFinite = "a second derivative of the network is not finite";
/// Dimension of the Krylov spaces: climbs with a smaller one are slower, with a larger one reach no
/// higher norm.
constexpr int64_t kKrylov = 6;
/// Tolerance of climbs that only locate the best maximum.
constexpr double kRough = 1e-2;
/// Minimum number of rough climbs that must end at the highest norm to stop the search.
constexpr int64_t kEnough = 3;
constexpr int64_t kProducts = 400;
/// If a product takes more than about ten milliseconds, measured by parameters times samples.
constexpr int64_t kProductsOfLarge = 60;
constexpr double kLargeNetwork = 1e7;
/// With fewer products a single climb is best.
constexpr int64_t kOneClimb = 60;
/// Possible error of a single climb; divided by the number of climbs that agree.
constexpr double kOfOneClimb = 0.1;
/// One start per this many products: a larger budget searches more places.
constexpr int64_t kProductsOfStart = 50;
/// Share of the products reserved for the best climb.
constexpr double kForTheBest = 0.25;

Tensor random_unit(int64_t size, at::Generator& generator, const torch::TensorOptions& options) {
  const Tensor drawn = torch::randn({size}, generator, torch::kFloat64);
  return (drawn / drawn.norm()).to(options);
}

/// State of a climb.
struct Climb {
  Tensor u;
  double value = 0;  ///< ‖∂²ŷ/∂θ²[u, u]‖
  double first = 0;  ///< the same at the start
  double gain = 1;   ///< of the last round, relative
};

/// Climbs at one point of the parameters.
class Climber {
 public:
  Climber(const Model& model, const Tensor& x) : model_(model), x_(x) {}

  /// Climbs with at most this many products, until two rounds gain too little.
  void climb(Climb& at, double tolerance, int64_t most);
  int64_t products() const { return products_; }

 private:
  /// A direction, and the magnitude of its eigenvalue.
  std::pair<Tensor, double> best_direction(const Tensor& w, const Tensor& u, int64_t most);

  const Model& model_;
  const Tensor& x_;
  int64_t products_ = 0;
};

/// A unit eigenvector of Σ w_i ∂²ŷ_i/∂θ², for the eigenvalue of largest magnitude in the Krylov
/// space of u.
std::pair<Tensor, double> Climber::best_direction(const Tensor& w, const Tensor& u, int64_t most) {
  std::vector<Tensor> basis;
  std::vector<double> diagonal, beside;
  Tensor next = u;
  const auto size = std::min(kKrylov, most);
  while (static_cast<int64_t>(basis.size()) < size) {
    basis.push_back(next);
    Tensor image = hessian_vector_product(model_, x_, w, next);
    ++products_;
    diagonal.push_back(image.dot(next).item<double>());
    if (!std::isfinite(diagonal.back())) throw NumericalError(kNotFinite);
    for (int pass = 0; pass < 2; ++pass) {
      for (const Tensor& b : basis) image = image - b * b.dot(image);
    }
    const double length = image.norm().item<double>();
    if (!(length > 1e-6 * std::abs(diagonal.front())) || !std::isfinite(length)) break;
    beside.push_back(length);
    next = image / length;
  }
  const auto count = static_cast<int64_t>(basis.size());
  const auto wide = torch::TensorOptions().dtype(torch::kFloat64);
  Tensor T = torch::diag(torch::tensor(diagonal, wide));
  for (int64_t k = 0; k + 1 < count; ++k) {
    T[k][k + 1] = T[k + 1][k] = beside[static_cast<size_t>(k)];
  }
  const auto [values, vectors] = torch::linalg_eigh(T);
  const auto index = values.abs().argmax().item<int64_t>();
  const Tensor best = vectors.select(1, index);
  Tensor direction = torch::zeros_like(u);
  for (int64_t k = 0; k < count; ++k) {
    direction.add_(basis[static_cast<size_t>(k)], best[k].item<double>());
  }
  return {direction / direction.norm(), std::abs(values[index].item<double>())};
}

void Climber::climb(Climb& at, double tolerance, int64_t most) {
  const int64_t end = products_ + most;
  double before = 0;
  int quiet = 0;
  for (bool first = true; products_ < end && quiet < 2; first = false) {
    interruption_point();
    const Tensor bent = second_derivative(model_, x_, at.u, at.u);
    ++products_;
    const double value = bent.norm().item<double>();
    if (!std::isfinite(value)) {
      throw NumericalError(kNotFinite);
    }
    if (first) at.first = value;
    if (!first) {
      at.gain = value > 0 ? std::max(0.0, (value - before) / value) : 0;
      quiet = at.gain <= tolerance ? quiet + 1 : 0;
    }
    before = value;
    at.value = std::max(at.value, value);
    if (value == 0 || products_ >= end) break;
    const auto [u, eigenvalue] = best_direction(bent / value, at.u, end - products_);
    if (eigenvalue < value) continue;  // rounding
    at.u = u;
    at.value = eigenvalue;  // a lower bound on ‖∂²ŷ/∂θ²[u, u]‖
  }
}

/// Share of the norm by which the best of some climbs may be too low. Lower ends indicate what all
/// may have missed: at least the gap of half of the climbs; the gap of the lowest, divided by the
/// number that reached the best; and a minimum for few climbs.
double accuracy_of(const std::vector<double>& ends, double best, int64_t alike) {
  std::vector<double> sorted = ends;
  std::ranges::sort(sorted);
  const double climbs = static_cast<double>(sorted.size());
  const double half = 1 - sorted[(sorted.size() - 1) / 2] / best;
  const double lowest =
      (1 - sorted.front() / best) / static_cast<double>(std::max<int64_t>(alike, 1));
  return std::max({half, lowest, kOfOneClimb / climbs});
}

/// Climbs from the given direction and random ones, then continues the best.
Curvature search(const Model& model, const Tensor& x, const Tensor& direction, int64_t budget,
                 const CurvatureOptions& options) {
  Climber climber(model, x);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  const auto like = model.parameters().front().detach().options().requires_grad(false);
  const auto for_the_best = static_cast<int64_t>(kForTheBest * static_cast<double>(budget));
  const int64_t for_starts = budget < kOneClimb ? budget : budget - for_the_best;
  const int64_t starts = std::max(options.starts, budget / kProductsOfStart);
  const int64_t enough = std::max(kEnough, starts / 2);
  Curvature found;
  Climb best;
  std::vector<double> ends;
  const auto alike = [&] {
    return std::ranges::count_if(ends,
                                 [&](double end) { return end >= best.value * (1 - kRough); });
  };
  while (static_cast<int64_t>(ends.size()) < starts && climber.products() < for_starts &&
         alike() < enough) {
    Climb here;
    const bool given = direction.defined() && ends.empty();
    here.u = given ? direction : random_unit(model.parameter_count(), generator, like);
    climber.climb(here, kRough, for_starts - climber.products());
    if (given) found.along_path = here.first;
    ends.push_back(here.value);
    if (here.value > best.value) best = here;
  }
  if (best.value > 0) climber.climb(best, options.tolerance, budget - climber.products());
  found.norm = best.value;
  found.products = climber.products();
  if (best.value > 0) {
    found.accuracy =
        std::max({options.tolerance, accuracy_of(ends, best.value, alike()), best.gain});
  }
  return found;
}

void require_valid(const CurvatureOptions& options) {
  CDT_REQUIRE(options.products >= 0, "products must be 0 (the usual number) or more, got ",
              options.products);
  CDT_REQUIRE(options.starts >= 1, "starts must be at least 1, got ", options.starts);
  require_positive(options.tolerance, "tolerance");
}

int64_t products_of(const CurvatureOptions& options, const Model& model, const Tensor& x) {
  if (options.products > 0) return options.products;
  require_samples(x);
  const auto size = static_cast<double>(model.parameter_count()) * static_cast<double>(x.size(0));
  return size > kLargeNetwork ? kProductsOfLarge : kProducts;
}

}  // namespace

Curvature hessian_norm(const Model& model, const Tensor& x, const CurvatureOptions& options) {
  require_valid(options);
  return search(model, x, {}, products_of(options, model, x), options);
}

Curvature hessian_norm_on_segment(const Model& model, const Tensor& x, const Tensor& displacement,
                                  const CurvatureOptions& options) {
  require_valid(options);
  CDT_REQUIRE(options.points >= 2, "points must be at least 2, got ", options.points);
  const int64_t products = products_of(options, model, x);
  CDT_REQUIRE(products >= options.points, "products must be at least the ", options.points,
              " points, got ", products);
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
    const int64_t budget = (products - result.products) / (options.points - i);
    // Different starts at each point, which find maxima that those of other points miss.
    CurvatureOptions own = options;
    own.seed += static_cast<uint64_t>(i);
    const Curvature here = search(model, x, direction, budget, own);
    // The worst point decides; another point's uncertainty counts if it reaches beyond that.
    const double most =
        std::max(result.norm * (1 + result.accuracy), here.norm * (1 + here.accuracy));
    result.norm = std::max(result.norm, here.norm);
    result.accuracy = result.norm > 0 ? most / result.norm - 1 : 0;
    result.along_path = std::max(result.along_path, here.along_path);
    result.products += here.products;
  }
  return result;
}

}  // namespace cdt::kernel
