#include <cdt/analysis/parts/equilibrium.h>
#include <cdt/analysis/parts/examine.h>
#include <cdt/analysis/parts/leave_one_out.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/machine/speed.h>
#include <cdt/core/tolerance.h>

#include <cmath>

namespace cdt::analysis {

using control::Known;
using torch::Tensor;

namespace {

/// n_L. All that say it must agree.
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
std::optional<Tensor> as_vector(const std::optional<Tensor>& values, int64_t n,
                                std::string_view name) {
  if (!values) return std::nullopt;
  require_floating(*values, name);
  CDT_REQUIRE(values->dim() <= 2 && values->numel() == n, name, " must be [r, n_L] or [n], ", n,
              " numbers, got shape ", values->sizes());
  require_finite(*values, name);
  return values->detach().to(torch::kFloat64).reshape({-1});
}

std::vector<double> rates_around(double rate) { return {0.1 * rate, rate, 10 * rate, 100 * rate}; }

void assess_error(Preflight& found, const Tensor& theta, const Tensor& labels,
                  const Tensor& outputs) {
  const dynamics::Modes& modes = found.plant->modes();
  const double factor = found.plant->gradient_factor();
  const Tensor error = outputs - labels;
  const double scale = factor * (labels.norm().item<double>() + outputs.norm().item<double>());
  const Tensor gradient = factor * error;
  found.state.equilibrium =
      classify_equilibrium(modes, gradient, found.learning_rate, scale, found.outputs);
  found.rates.lyapunov = lyapunov_lr_max(theta, gradient, error);
  found.reach.stabilizability = assess_stabilizability(modes, error);
  if (found.outputs == 1 && found.n >= 2) {
    found.outlook.left_out = leave_one_out(modes, labels, outputs);
  }
  if (found.reach.stabilizability->stabilizable) {
    found.reach.size =
        reach_labels(modes, found.plant->step_scale(), error, found.reach.steps).size;
  }
}

}  // namespace

Preflight start_preflight(const PreflightOptions& options, double near, double anywhere) {
  Preflight found;
  found.loss = options.loss;
  found.learning_rate =
      options.choose_rate ? options.choose_rate(near, anywhere) : options.learning_rate;
  require_positive(found.learning_rate, "learning_rate");
  found.q = options.q;
  found.rho = options.rho;
  found.design = options.design;
  return found;
}

void examine_loop(Preflight& found, const control::Plant& plant, const Tensor& matrix) {
  const dynamics::Modes& modes = plant.modes();
  const double largest = modes.largest(), bound = modes.upper_bound();
  const auto rate_of = [&](double scale) {
    return scale / plant.options().gradient_factor * plant.options().samples;
  };
  found.n = plant.size();
  found.plant = plant;
  found.spectrum.largest = {largest, largest, bound};
  found.spectrum.smallest = modes.complete() ? Known::exactly(modes.smallest)
                                             : Known::within(0, modes.values[0].item<double>());
  found.spectrum.rank_tolerance = modes.rank_tolerance;
  found.stability = assess_stability(modes, plant.step_scale());
  found.rates.stable = {rate_of(2 / largest), rate_of(2 / bound), rate_of(2 / largest)};
  found.rates.monotone = {rate_of(1 / largest), rate_of(1 / bound), rate_of(1 / largest)};
  if (modes.complete()) found.reachability = assess_reachability(modes);
  found.controller = usual_controller(found).certificate(matrix);
  if (matrix.defined() && modes.rank == 0) found.controller.residual = 0;
  if (found.design != "lqr") promise(found, examined_controller(found)->certificate(matrix));
}

control::ModalController usual_controller(const Preflight& preflight) {
  return {preflight.plant->at(preflight.learning_rate), control::lqr(preflight.q, preflight.rho)};
}

std::unique_ptr<control::Controller> examined_controller(const Preflight& preflight) {
  return control::design(preflight.plant->at(preflight.learning_rate),
                         {.q = preflight.q, .p = preflight.rho}, preflight.design);
}

Preflight analyze(const Tensor& theta, const dynamics::Modes& modes,
                  const PreflightOptions& options) {
  const int64_t n = modes.size();
  loss::require_quadratic(*options.loss, "the analysis");
  const double factor = loss::gradient_factor(options.loss, n);
  const double unit = dynamics::unit_rate(modes, factor);
  Preflight found = start_preflight(options, unit, unit);
  found.outputs = outputs_per_sample(options, n);
  found.samples = n / found.outputs;
  examine_loop(
      found,
      control::Plant::of_modes(modes, {.gradient_factor = factor, .rate = found.learning_rate}),
      options.residual ? theta : Tensor());
  const auto examined = examined_controller(found);
  const auto* modal = dynamic_cast<const control::ModalController*>(examined.get());
  found.rates.others = rate_table(modes, factor, rates_around(found.learning_rate),
                                  modal != nullptr ? std::optional(modal->law()) : std::nullopt);

  const auto labels = as_vector(options.labels, n, "labels");
  const auto outputs = as_vector(options.outputs, n, "outputs");
  found.reach.steps = options.reach_steps;
  if (labels) found.reach.label_norm = labels->norm().item<double>();
  found.reach.conflicts = trace_unreachable(theta, modes, found.outputs, labels);
  found.state.mae_radius = mae_radius(theta, found.learning_rate);
  if (labels && outputs) {
    assess_error(found, theta, *labels, *outputs);
  } else if (found.reachability.reachable) {
    found.reach.stabilizability = Stabilizability{true, 0};
  }
  if (options.inputs) {
    CDT_REQUIRE(options.inputs->dim() >= 1 && options.inputs->size(0) == found.samples,
                "inputs must have ", found.samples, " rows, not the shape ",
                options.inputs->sizes());
    found.reach.inputs = assess_inputs(*options.inputs);
  }
  return found;
}

Preflight analyze(const Tensor& theta, const PreflightOptions& options) {
  CDT_REQUIRE(options.loss->traits().has_curvature(), "the loss ", to_string(options.loss),
              " has no analysis: it has no curvature");
  if (options.loss->classes()) return analyze_classes(theta, options);
  if (!options.loss->quadratic()) return analyze_curved(theta, options);
  const auto start = Clock::now();
  const auto modes =
      dynamics::decompose(theta, tol::rank_of_computed(theta.size(0), options.network_dtype));
  const double seconds = seconds_since(start);
  Preflight found = analyze(theta, modes, options);
  found.origin.seconds = seconds;
  return found;
}

void promise(Preflight& preflight, const control::Certificate& controller) {
  if (controller.empty()) return;
  preflight.controller = controller;
  preflight.acts = true;
}

double Preflight::gain_slow_modes() const {
  return acts ? controller.gain - 1 : control::gain_of_slow_modes(q, rho);
}

ForecastFindings summarize(const control::Forecast& forecast) {
  ForecastFindings found{forecast.best, forecast.best_descent, {}};
  if (forecast.best_controlled) found.sensitivity = control::sensitivity(forecast);
  return found;
}

const TrialFindings* Outlook::leading_trial() const {
  for (const TrialFindings& trial : trials) {
    if (trial.controlled) return &trial;
  }
  return trials.empty() ? nullptr : &trials.front();
}

}  // namespace cdt::analysis
