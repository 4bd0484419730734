#include <cdt/analysis/preflight.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>

namespace cdt::analysis {
namespace {

void require_vector(const torch::Tensor& values, int64_t n, std::string_view name) {
  require_floating(values, name);
  require_shape(values, {n}, name);
  CDT_REQUIRE(values.scalar_type() == torch::kFloat64, name, " must be float64, not ",
              values.scalar_type());
  require_finite(values, name);
}

std::vector<double> rates_around(double rate) { return {0.1 * rate, rate, 10 * rate, 100 * rate}; }

}  // namespace

Preflight analyze(const torch::Tensor& theta, const dynamics::Modes& modes,
                  const PreflightOptions& options) {
  const int64_t n = modes.size();
  CDT_REQUIRE(options.outputs_per_sample >= 1 && n % options.outputs_per_sample == 0,
              "a kernel of ", n, " rows cannot have ", options.outputs_per_sample,
              " outputs a sample");
  dynamics::require_quadratic(options.loss, "the analysis");
  require_positive(options.learning_rate, "learning_rate");
  const control::SpectralWeights weights{options.q, options.rho, {}, {}};
  const double factor = dynamics::gradient_factor(options.loss, n);
  const auto controller = control::design_spectral(modes, options.learning_rate * factor, weights);

  Preflight result;
  result.n = n;
  result.outputs = options.outputs_per_sample;
  result.samples = n / result.outputs;
  result.learning_rate = options.learning_rate;
  result.loss = options.loss;
  result.q = options.q;
  result.rho = options.rho;
  result.lambda_max = modes.largest();
  result.lambda_min = modes.smallest;
  result.rank_tolerance = modes.rank_tolerance;
  result.stability = assess_stability(modes, controller.step_scale);
  result.lr_max = result.stability.scale_max / factor;
  result.lr_monotone = result.stability.scale_monotone / factor;
  result.reachability = assess_reachability(modes);
  result.margins = kernel_margins(controller);
  result.radius_cdt = controller.closed_loop_radius();
  result.gain_slow_modes = control::gain_of_slow_modes(options.q, options.rho);
  result.reach_steps = options.reach_steps;

  if (options.labels) {
    require_vector(*options.labels, n, "labels");
    result.label_norm = options.labels->norm().item<double>();
  }
  result.conflicts = trace_unreachable(theta, modes, result.outputs, options.labels);
  if (options.outputs) {
    require_vector(*options.outputs, n, "outputs");
  }
  result.findings.mae_radius = mae_radius(theta, options.learning_rate);
  result.findings.gain_margin = gain_margin(controller);
  result.findings.rates = rate_table(modes, factor, rates_around(options.learning_rate), weights);
  if (options.labels && options.outputs) {
    const torch::Tensor error = *options.outputs - *options.labels;
    const double scale = factor * (*result.label_norm + options.outputs->norm().item<double>());
    const torch::Tensor gradient = factor * error;
    result.findings.equilibrium =
        classify_equilibrium(modes, gradient, options.learning_rate, scale, result.outputs);
    result.findings.lyapunov_lr_max = lyapunov_lr_max(theta, gradient, error);
    result.stabilizability = assess_stabilizability(modes, error);
    if (result.outputs == 1 && n >= 2) {
      result.findings.left_out = leave_one_out(modes, *options.labels, *options.outputs);
    }
    if (result.stabilizability->stabilizable) {
      result.reach_size =
          reach_labels(modes, controller.step_scale, error, options.reach_steps).size;
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

}  // namespace cdt::analysis
