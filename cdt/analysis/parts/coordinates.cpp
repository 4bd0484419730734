// Losses that are not quadratic: the loop in coordinates in which it is linear and symmetric,
// x⁺ = (I − αcM)x with M = H^½ΘH^½ and the loss's curvature cH.
#include <cdt/analysis/parts/examine.h>
#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/loss_linearization.h>

#include <cmath>

namespace cdt::analysis {

using torch::Tensor;

namespace {

/// y and ŷ [r, n_L], float64.
std::pair<Tensor, Tensor> labels_and_outputs(const PreflightOptions& options) {
  CDT_REQUIRE(options.labels && options.outputs, "the analysis of the loss ",
              to_string(options.loss), " needs labels and outputs");
  CDT_REQUIRE(options.labels->dim() == 2 && options.outputs->sizes() == options.labels->sizes(),
              "labels and outputs must have one shape [r, n_L], got ", options.labels->sizes(),
              " and ", options.outputs->sizes());
  return {options.labels->detach().to(torch::kFloat64),
          options.outputs->detach().to(torch::kFloat64)};
}

double largest_of(const Tensor& theta) {
  return torch::linalg_eigvalsh(theta).max().item<double>();
}

/// `samples` divides the factor c of the gradient last, as the plant does.
Preflight examine_curvature(const dynamics::Modes& modes, double samples, double near,
                            double everywhere, const PreflightOptions& options) {
  Preflight found = start_preflight(options, near, everywhere / 2);
  examine_loop(found,
               control::Plant::of_modes(modes, {.rate = found.learning_rate, .samples = samples}));
  found.rates.everywhere = everywhere;
  found.samples = options.labels->size(0);
  found.outputs = options.labels->size(1);
  found.curvature.emplace();
  return found;
}

}  // namespace

Preflight analyze_classes(const Tensor& theta, const PreflightOptions& options) {
  const auto [labels, logits] = labels_and_outputs(options);
  const auto plant = control::Plant::of_classes(
      theta, loss::class_coordinates_at(logits, labels, options.smoothing), 1,
      options.network_dtype);
  const auto r = static_cast<double>(plant.classes()->samples);
  const double largest = largest_of(theta);
  const double safe = largest > 0 ? 4 * r / largest : INFINITY;  // ‖∂²L/∂ŷ²‖ ≤ 1/(2r)
  Preflight found = examine_curvature(plant.modes(), r, plant.unit_rate(), safe, options);
  found.curvature->smoothing = options.smoothing;
  found.state.loss = dynamics::output_loss(loss::cross_entropy(), logits, labels);
  return found;
}

Preflight analyze_curved(const Tensor& theta, const PreflightOptions& options) {
  const auto [labels, outputs] = labels_and_outputs(options);
  const Tensor root = options.loss->second_order(outputs, labels, {}).S;
  const Tensor half = dynamics::times_blocks(theta, root);                    // ΘH^½
  const Tensor matrix = dynamics::times_blocks(half.t().contiguous(), root);  // H^½ΘH^½
  const auto modes = dynamics::decompose(
      (matrix + matrix.t()) / 2, tol::rank_of_computed(matrix.size(0), options.network_dtype));
  const double c = options.loss->scale(labels.size(0), labels.size(1));
  const double bound = options.loss->traits().curvature_bound;
  double safe = 0;
  if (std::isfinite(bound)) {
    const double largest = largest_of(theta);
    safe = largest > 0 ? 2 / (c * bound * largest) : INFINITY;
  }
  Preflight found = examine_curvature(modes, 1 / c, dynamics::unit_rate(modes, c), safe, options);
  found.curvature->flat = (root.square().sum({1, 2}) == 0).sum().item<int64_t>();
  found.state.loss = dynamics::output_loss(options.loss, outputs, labels);
  return found;
}

}  // namespace cdt::analysis
