#include <cdt/core/error.h>
#include <cdt/train/forms/form_choice.h>
#include <cdt/train/methods/batch_momentum.h>

#include <cmath>

namespace cdt::train {

using torch::Tensor;

namespace {

/// Once λ exceeds the error that rounding has added, there is a factor.
constexpr double kMoreDamping = 4;
constexpr int kMostTries = 40;
/// Up to this number of residuals, the kernel is solved in the network's precision. Its largest
/// eigenvalue is at most their number times the mean, and λ is a tenth of the mean, so a float32
/// factor loses four of seven digits, as rounding of the kernel itself does.
constexpr int64_t kMostOfFloat32 = 1000;

/// a·x; undefined if x is.
Tensor scaled(const Tensor& x, double a) { return x.defined() ? a * x : x; }
Tensor sum(const Tensor& x, const Tensor& y) {
  if (!x.defined() || !y.defined()) return x.defined() ? x : y;
  return x + y;
}

}  // namespace

BatchRates BatchRates::at(double share) const {
  return {momentum, damping / std::sqrt(share), rate * std::sqrt(share)};
}

RidgeOptions batch_options(const Setup& setup, bool checked) {
  RidgeOptions options;
  options.memory_bytes = setup.options.memory_bytes;
  options.accumulate = setup.model.dtype();
  options.trusted = !checked && setup.engine->repeatable();
  return options;
}

control::Certificate of_batches() {
  control::Certificate found;
  found.controller =
      "damped steps of one batch after another, with momentum: an epoch that raises the objective "
      "of "
      "all rows is taken back, and nothing more is promised";
  return found;
}

const Tensor& BatchMomentum::next(const RidgeProblem& batch, double decay,
                                  const BatchRates& rates) {
  const torch::ScalarType dtype = batch.network->dtype();
  const auto rows = batch.residuals.size();
  ResidualJacobian jacobian(batch.network, batch.residuals,
                            rows <= kMostOfFloat32 ? dtype : torch::kFloat64);
  ShiftedFactor kernel(jacobian.take_kernel());
  mean_eigenvalue_ = kernel.matrix().diagonal().mean().item<double>();
  if (!std::isfinite(mean_eigenvalue_)) {
    throw NumericalError("the kernel of a batch is not finite");
  }
  double lambda = rates.damping * mean_eigenvalue_;
  if (!(lambda + decay > 0)) lambda = 1;  // no output moves, and neither does the network
  for (int tries = 0; tries < kMostTries; ++tries, lambda *= kMoreDamping) {
    const double whole = decay + lambda;
    const Tensor c = sum(scaled(batch.displacement, decay / whole),
                         scaled(phi_, lambda * rates.momentum / whole));
    Tensor e = batch.residuals.e;
    if (c.defined()) e = e - jacobian.push_forward(c);
    const Tensor u = kernel.solve(e, whole);
    if (!u.defined()) continue;
    phi_ = sum(c, jacobian.pull_back(u, dtype));
    return phi_;
  }
  throw NumericalError("the kernel of a batch has no Cholesky factor, whatever the damping");
}

void BatchMomentum::take(const kernel::Model& model, const RidgeProblem& batch, double decay,
                         const BatchRates& rates) {
  move_parameters(model, -rates.rate * next(batch, decay, rates));
}

void BatchMomentum::save(SavedState& state) const {
  state.values["has_direction"] = phi_.defined();
  if (phi_.defined()) state.tensors["direction"] = phi_.clone();
}

void BatchMomentum::restore(const SavedState& state, const kernel::Model& model) {
  phi_ = Tensor();
  if (!state.flag("has_direction")) return;
  const auto like =
      torch::empty({model.parameter_count()},
                   torch::TensorOptions().dtype(model.dtype()).device(model.device()));
  phi_ = state.tensor_like("direction", like);
}

/// The methods take the steps of batches themselves (BatchMomentum), so there is no `make`. The
/// cost is that of an epoch.
FormTraits batch_form() {
  return {.name = "batch",
          .summary = "kernels of batches with momentum (--batch)",
          .batches = true,
          .cost = [](const FormSizes& sizes) {
            const auto rows = static_cast<double>(sizes.batch_samples() * sizes.per_sample);
            FormCost cost = dense_cost(rows, sizes);
            cost.operations = cost.operations * static_cast<double>(sizes.residuals()) / rows +
                              sizes.factor_pass() + sizes.product();
            return cost;
          }};
}

}  // namespace cdt::train
