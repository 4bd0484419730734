#include <cdt/analysis/preflight.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>

#include <cmath>

namespace cdt::analysis {
namespace {

/// n_L, from whoever knows it; all who do must agree.
int64_t outputs_per_sample(const PreflightOptions& options, int64_t n) {
  int64_t width = options.outputs_per_sample;
  for (const auto& [values, name] :
       {std::pair{&options.labels, "labels"}, {&options.outputs, "outputs"}}) {
    if (!*values || (*values)->dim() != 2) continue;
    const int64_t found = (*values)->size(1);
    CDT_REQUIRE(width == 0 || width == found, name, " of shape ", (*values)->sizes(), " have ",
                found, " outputs a sample, got ", width);
    width = found;
  }
  const auto& inputs = options.inputs;
  if (width == 0 && inputs && inputs->dim() > 0 && inputs->size(0) > 0) width = n / inputs->size(0);
  CDT_REQUIRE(width != 0,
              "nothing says how many outputs a sample has: give labels or outputs as [r, n_L], or "
              "outputs_per_sample, 1 for one output");
  CDT_REQUIRE(width >= 1 && n % width == 0, "a kernel of ", n, " rows cannot have ", width,
              " outputs a sample");
  return width;
}

/// [n] in float64, from [n] or [r, n_L].
std::optional<torch::Tensor> as_vector(const std::optional<torch::Tensor>& values, int64_t n,
                                       std::string_view name) {
  if (!values) return std::nullopt;
  require_floating(*values, name);
  CDT_REQUIRE(values->dim() <= 2 && values->numel() == n, name, " must be [r, n_L] or [n], ", n,
              " numbers, got shape ", values->sizes());
  require_finite(*values, name);
  return values->detach().to(torch::kFloat64).reshape({-1});
}

std::vector<double> rates_around(double rate) { return {0.1 * rate, rate, 10 * rate, 100 * rate}; }

}  // namespace

Preflight analyze(const torch::Tensor& theta, const dynamics::Modes& modes,
                  const PreflightOptions& options) {
  const int64_t n = modes.size();
  loss::require_quadratic(*options.loss, "the analysis");
  require_positive(options.learning_rate, "learning_rate");
  const double factor = loss::gradient_factor(options.loss, n);
  const auto plant =
      control::Plant::of_modes(modes, {.gradient_factor = factor, .rate = options.learning_rate});
  const control::ModalController controller(plant, control::lqr(options.q, options.rho));
  const double step_scale = plant.step_scale();

  Preflight result;
  result.n = n;
  result.outputs = outputs_per_sample(options, n);
  result.samples = n / result.outputs;
  result.learning_rate = options.learning_rate;
  result.loss = options.loss;
  result.q = options.q;
  result.rho = options.rho;
  result.design = options.design;
  result.lambda_max = modes.largest();
  result.lambda_min = modes.smallest;
  result.rank_tolerance = modes.rank_tolerance;
  result.stability = assess_stability(modes, step_scale);
  result.lr_max = result.stability.scale_max / factor;
  result.lr_monotone = result.stability.scale_monotone / factor;
  result.reachability = assess_reachability(modes);
  result.margins = kernel_margins(controller);
  result.radius_cdt = controller.closed_loop_radius();
  result.gain_slow_modes = control::gain_of_slow_modes(options.q, options.rho);
  result.reach_steps = options.reach_steps;

  const auto labels = as_vector(options.labels, n, "labels");
  const auto outputs = as_vector(options.outputs, n, "outputs");
  if (labels) result.label_norm = labels->norm().item<double>();
  result.conflicts = trace_unreachable(theta, modes, result.outputs, labels);
  result.findings.mae_radius = mae_radius(theta, options.learning_rate);
  result.findings.gain_margin = gain_margin(controller);
  if (options.residual) result.riccati_residual = controller.riccati_residual(theta);
  std::optional<control::Law> law = controller.law();
  if (options.design != "lqr") {
    const auto other = control::design(plant, {.q = options.q, .p = options.rho}, options.design);
    promise(result, other->certificate(theta));
    const auto* modal = dynamic_cast<const control::ModalController*>(other.get());
    law = modal != nullptr ? std::optional(modal->law()) : std::nullopt;
  }
  result.findings.rates = rate_table(modes, factor, rates_around(options.learning_rate), law);
  if (labels && outputs) {
    const torch::Tensor error = *outputs - *labels;
    const double scale = factor * (*result.label_norm + outputs->norm().item<double>());
    const torch::Tensor gradient = factor * error;
    result.findings.equilibrium =
        classify_equilibrium(modes, gradient, options.learning_rate, scale, result.outputs);
    result.findings.lyapunov_lr_max = lyapunov_lr_max(theta, gradient, error);
    result.stabilizability = assess_stabilizability(modes, error);
    if (result.outputs == 1 && n >= 2) {
      result.findings.left_out = leave_one_out(modes, *labels, *outputs);
    }
    if (result.stabilizability->stabilizable) {
      result.reach_size = reach_labels(modes, step_scale, error, options.reach_steps).size;
    }
  } else if (result.reachability.reachable) {
    result.stabilizability = Stabilizability{true, 0};
  }
  if (options.inputs) {
    CDT_REQUIRE(options.inputs->dim() >= 1 && options.inputs->size(0) == result.samples,
                "inputs must have ", result.samples, " rows, not the shape ",
                options.inputs->sizes());
    result.input_condition = assess_inputs(*options.inputs);
  }
  return result;
}

void promise(Preflight& preflight, const control::Certificate& controller) {
  if (controller.empty()) return;
  const auto known = [](const control::Known& number) {
    return number.bounded() ? number : control::Known::within(NAN, NAN);
  };
  preflight.controller = controller;
  preflight.radius_cdt = known(controller.radius).upper;
  preflight.margins.cdt = known(controller.kernel_margin).lower;
  preflight.gain_slow_modes = controller.gain - 1;
  preflight.riccati_residual.reset();
  if (!std::isnan(controller.residual)) preflight.riccati_residual = controller.residual;
  GainMargin& margin = preflight.findings.gain_margin;
  margin.lower = known(controller.gain_margin).lower;
  margin.upper = known(controller.gain_margin).upper;
  margin.guaranteed_lower = known(controller.guaranteed_margin).lower;
  margin.guaranteed_upper = known(controller.guaranteed_margin).upper;
}

}  // namespace cdt::analysis
