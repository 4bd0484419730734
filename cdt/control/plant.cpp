#include <cdt/control/plant.h>
#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/lanczos.h>

#include <mutex>
#include <optional>

namespace cdt::control {

using torch::Tensor;

struct Plant::Shared {
  Tensor matrix;  ///< undefined: only the modes are known, or neither
  int64_t size = 0;
  double rank_tolerance = 0;
  std::mutex lock;
  std::optional<dynamics::Modes> modes;
  std::optional<double> largest;
  std::optional<loss::ClassCoordinates> classes;
};

Plant::Plant(std::shared_ptr<Shared> shared, const Options& options)
    : shared_(std::move(shared)), options_(options) {
  require_positive(options.gradient_factor, "the factor of the gradient");
  require_positive(options.rate, "learning_rate");
  require_non_negative(options.decay, "weight decay");
}

Plant Plant::of_kernel(const Tensor& theta, const loss::LossPtr& loss, double rate,
                       torch::ScalarType network_dtype) {
  require_kernel(theta);
  const int64_t n = theta.size(0);
  return of_kernel(theta, tol::rank_of_computed(n, network_dtype),
                   {.gradient_factor = loss::gradient_factor(loss, n), .rate = rate});
}

Plant Plant::of_classes(const Tensor& theta, loss::ClassCoordinates classes, double rate,
                        torch::ScalarType network_dtype) {
  require_kernel(theta);
  const int64_t n = classes.samples * classes.classes;
  require_shape(theta, {n, n}, "kernel");
  Plant plant =
      of_modes(dynamics::decompose(classes.kernel(theta), classes.rank_tolerance(network_dtype)),
               {.rate = rate, .samples = static_cast<double>(classes.samples)});
  plant.shared_->classes = std::move(classes);
  return plant;
}

Plant Plant::of_kernel(Tensor matrix, double rank_tolerance, const Options& options) {
  require_kernel(matrix);
  auto shared = std::make_shared<Shared>();
  shared->size = matrix.size(0);
  shared->matrix = std::move(matrix);
  shared->rank_tolerance = rank_tolerance;
  return {std::move(shared), options};
}

Plant Plant::of_kernel(Tensor matrix, dynamics::Modes modes, const Options& options) {
  Plant plant = of_kernel(std::move(matrix), modes.rank_tolerance, options);
  plant.shared_->modes = std::move(modes);
  return plant;
}

Plant Plant::of_products(int64_t n, double largest, const Options& options) {
  auto shared = std::make_shared<Shared>();
  shared->size = n;
  shared->largest = largest;
  return {std::move(shared), options};
}

Plant Plant::of_modes(dynamics::Modes modes, const Options& options) {
  auto shared = std::make_shared<Shared>();
  shared->size = modes.size();
  shared->modes = std::move(modes);
  return {std::move(shared), options};
}

Plant Plant::at(double rate) const {
  Options options = options_;
  options.rate = rate;
  return {shared_, options};
}

int64_t Plant::size() const { return shared_->size; }

bool Plant::has_matrix() const { return shared_->matrix.defined(); }

double Plant::rank_tolerance() const { return shared_->rank_tolerance; }

torch::Device Plant::device() const {
  if (shared_->matrix.defined()) return shared_->matrix.device();
  return has_modes() ? modes().values.device() : torch::Device(torch::kCPU);
}

const loss::ClassCoordinates* Plant::classes() const {
  return shared_->classes ? &*shared_->classes : nullptr;
}

double Plant::largest() const {
  const std::lock_guard guard(shared_->lock);
  if (!shared_->largest) {
    shared_->largest = shared_->matrix.defined() ? dynamics::largest_eigenvalue(shared_->matrix)
                                                 : shared_->modes->upper_bound();
  }
  return *shared_->largest;
}

double Plant::unit_rate() const {
  const double most = largest();
  return most > 0 ? options_.samples / (options_.gradient_factor * most) : 1;
}

bool Plant::has_modes() const {
  const std::lock_guard guard(shared_->lock);
  return shared_->modes.has_value();
}

const dynamics::Modes& Plant::modes() const {
  const std::lock_guard guard(shared_->lock);
  if (!shared_->modes) {
    CDT_REQUIRE(shared_->matrix.defined(), "the kernel of this plant has not been formed");
    shared_->modes = dynamics::decompose(shared_->matrix, shared_->rank_tolerance);
  }
  return *shared_->modes;
}

Tensor Plant::steps() const {
  const Tensor& lambda = modes().values;
  if (options_.decay == 0) return lambda * step_scale();
  return (lambda + ridge()) * step_scale();
}

Tensor Plant::matrix() const {
  if (shared_->matrix.defined()) return shared_->matrix;
  const dynamics::Modes& known = modes();
  return (known.vectors * known.values).mm(known.vectors.t());
}

Tensor Plant::apply(const Tensor& v) const {
  Tensor moved;
  if (shared_->matrix.defined()) {
    moved = shared_->matrix.mv(v);
  } else {
    const dynamics::Modes& known = modes();
    moved = known.vectors.mv(known.values * known.vectors.t().mv(v));
  }
  return moved.mul_(step_scale()).add_(v, decay_step());
}

}  // namespace cdt::control
