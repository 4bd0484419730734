#include <cdt/analysis/report.h>
#include <cdt/core/error.h>
#include <cdt/core/machine/speed.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/path.h>
#include <cdt/study/findings.h>
#include <cdt/study/parts/cost.h>
#include <fmt/format.h>

#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

/// What an analysis may take that nobody has asked for.
constexpr double kSecondsUnasked = 15;

analysis::ForecastFindings predict_training(const kernel::Model& model,
                                            const train::TrainData& data,
                                            const AnalysisOptions& options,
                                            const dynamics::Modes& modes, const Tensor& error) {
  CDT_REQUIRE(data.x_val.defined(), "a forecast needs validation rows: a train fraction below 1");
  kernel::NtkOptions ntk;
  ntk.memory_bytes = options.memory_bytes;
  const auto cross = kernel::empirical_ntk(model, data.x_val, data.x, ntk);
  const Tensor gap = cross.outputs.to(torch::kFloat64).reshape({-1}) - data.y_val.reshape({-1});
  control::ForecastOptions grid;
  grid.q = options.q;
  const auto by_mode = dynamics::modal_problem(modes, error, cross.theta, gap);
  return analysis::summarize(control::forecast(by_mode, options.loss, grid));
}

void analyze_numbers(const kernel::Model& model, const kernel::Ntk& ntk,
                     const train::TrainData& data, const AnalysisOptions& options,
                     Findings& findings) {
  const auto start = Clock::now();
  findings.kernel = ntk.brief_report();
  findings.modes =
      dynamics::decompose(ntk.theta, tol::rank_of_computed(ntk.theta.size(0), ntk.network_dtype));
  findings.kernel_seconds = seconds_since(start);

  analysis::PreflightOptions settings;
  settings.loss = options.loss;
  const double factor = loss::gradient_factor(options.loss, data.y.numel());
  settings.q = options.q;
  settings.rho = options.p;
  settings.design = options.design;
  settings.residual = options.residual;
  settings.reach_steps = options.reach_steps;
  if (data.x.is_floating_point()) settings.inputs = data.x;
  settings.outputs_per_sample = data.y.size(1);
  settings.labels = data.y.reshape({-1});
  settings.outputs = ntk.outputs.to(torch::kFloat64).reshape({-1});
  settings.learning_rate = options.examined_rate(dynamics::unit_rate(findings.modes, factor));
  findings.preflight = analysis::analyze(ntk.theta, findings.modes, settings);
  findings.theta = ntk.theta;
  if (options.trial_steps > 0) {
    findings.preflight.findings.trials =
        run_trials(model, data.x, *settings.labels, findings.modes, findings.preflight,
                   options.trial_steps, options.curvature_products);
  }
  if (options.forecast) {
    findings.preflight.findings.forecast = predict_training(model, data, options, findings.modes,
                                                            *settings.outputs - *settings.labels);
  }
}

void require_no_forecast(const AnalysisOptions& options) {
  CDT_REQUIRE(!options.forecast, "a forecast is for quadratic losses; ", to_string(options.loss),
              " has no closed form");
}

/// Of the loop x⁺ = (I − (α/d)M)x in coordinates of which these are the modes, d = 1/c.
void examine_loop(const dynamics::Modes& modes, double divisor, double unit,
                  const AnalysisOptions& options, analysis::Preflight& found) {
  found.learning_rate = options.examined_rate(unit);
  found.loss = options.loss;
  found.n = modes.size();
  found.q = options.q;
  found.rho = options.p;
  found.lambda_max = modes.largest();
  found.lambda_min = modes.smallest;
  found.rank_tolerance = modes.rank_tolerance;
  const double scale = found.learning_rate / divisor;
  found.stability = analysis::assess_stability(modes, scale);
  found.lr_max = found.stability.scale_max * divisor;
  found.lr_monotone = found.stability.scale_monotone * divisor;
  found.reachability = analysis::assess_reachability(modes);
  const auto controller = control::design(
      control::Plant::of_modes(modes, {.rate = found.learning_rate, .samples = divisor}),
      {.q = options.q, .p = options.p}, options.design);
  found.margins = analysis::kernel_margins(*controller);
  found.radius_cdt = controller->closed_loop_radius();
  found.gain_slow_modes = control::gain_of_slow_modes(options.q, options.p);
  if (options.design != "lqr") analysis::promise(found, controller->certificate());
}

void analyze_classes(const kernel::Ntk& ntk, const train::TrainData& data,
                     const AnalysisOptions& options, Findings& findings) {
  require_no_forecast(options);
  const auto start = Clock::now();
  findings.kernel = ntk.brief_report();
  const Tensor logits = ntk.outputs.to(torch::kFloat64);
  const auto plant = control::Plant::of_classes(
      ntk.theta, loss::class_coordinates_at(logits, data.y, options.smoothing), 1,
      ntk.network_dtype);
  findings.modes = plant.modes();
  findings.theta = ntk.theta;
  const double largest = torch::linalg_eigvalsh(ntk.theta).max().item<double>();
  findings.kernel_seconds = seconds_since(start);

  ClassFindings classes;
  const auto r = static_cast<double>(plant.classes()->samples);
  classes.smoothing = options.smoothing;
  classes.safe_rate = largest > 0 ? 4 * r / largest : INFINITY;  // ‖∂²L/∂ŷ²‖ ≤ 1/(2r)
  classes.initial_loss =
      dynamics::output_loss(loss::cross_entropy(), logits, data.y.to(torch::kFloat64));
  const double unit = options.method->controlled ? plant.unit_rate() : classes.safe_rate / 2;
  findings.preflight.samples = plant.classes()->samples;
  findings.preflight.outputs = plant.classes()->classes;
  examine_loop(plant.modes(), r, unit, options,
               findings.preflight);  // the step of ζ is (α/r)H^½ΘH^½
  findings.classes = std::move(classes);
}

void analyze_curved(const kernel::Ntk& ntk, const train::TrainData& data,
                    const AnalysisOptions& options, Findings& findings) {
  require_no_forecast(options);
  const auto start = Clock::now();
  findings.kernel = ntk.brief_report();
  const Tensor outputs = ntk.outputs.to(torch::kFloat64).view(data.y.sizes());
  CurvedFindings curved;
  curved.initial_loss = dynamics::output_loss(options.loss, outputs, data.y);
  const Tensor root = options.loss->second_order(outputs, data.y, {}).S;
  curved.flat = (root.square().sum({1, 2}) == 0).sum().item<int64_t>();
  const Tensor half = dynamics::times_blocks(ntk.theta, root);                // ΘH^½
  const Tensor matrix = dynamics::times_blocks(half.t().contiguous(), root);  // H^½ΘH^½
  const int64_t n = matrix.size(0);
  findings.modes =
      dynamics::decompose((matrix + matrix.t()) / 2, tol::rank_of_computed(n, ntk.network_dtype));
  findings.theta = ntk.theta;
  const double c = options.loss->scale(data.y.size(0), data.y.size(1));
  const double bound = options.loss->traits().curvature_bound;
  if (std::isfinite(bound)) {
    const double largest = torch::linalg_eigvalsh(ntk.theta).max().item<double>();
    curved.safe_rate = largest > 0 ? 2 / (c * bound * largest) : INFINITY;
  }
  findings.kernel_seconds = seconds_since(start);
  const bool local = options.method->controlled || curved.safe_rate == 0;
  const double unit = local ? dynamics::unit_rate(findings.modes, c) : curved.safe_rate / 2;
  findings.preflight.samples = data.y.size(0);
  findings.preflight.outputs = data.y.size(1);
  examine_loop(findings.modes, 1 / c, unit, options, findings.preflight);
  findings.curved = std::move(curved);
}

}  // namespace

double AnalysisOptions::examined_rate(double unit) const {
  const train::Method rated = method->path ? train::Method("guarded") : method;
  return learning_rate.value_or(train::start_rate(rated, unit));
}

AnalysisOptions analysis_of(const train::TrainOptions& training) {
  AnalysisOptions options;
  options.loss = training.loss;
  options.learning_rate = training.learning_rate;
  options.method = training.method;
  options.p = training.p;
  options.q = training.q;
  options.design = training.design;
  if (const double smoothing = train::smoothing_of(training); smoothing > 0) {
    options.smoothing = smoothing;
  }
  options.memory_bytes = training.memory_bytes;
  return options;
}

kernel::Ntk start_kernel(const kernel::Model& model, const train::TrainData& data,
                         const AnalysisOptions& options) {
  CDT_REQUIRE(options.loss->traits().has_curvature(), "the loss ", to_string(options.loss),
              " has no analysis: it has no curvature");
  kernel::NtkOptions ntk;
  ntk.memory_bytes = options.memory_bytes;
  ntk.progress = options.progress;
  return kernel::empirical_ntk(model, data.x, ntk);
}

Findings analyze(const kernel::Model& model, const kernel::Ntk& ntk, const train::TrainData& data,
                 const AnalysisOptions& options) {
  Findings findings;
  if (options.loss->quadratic()) {
    analyze_numbers(model, ntk, data, options, findings);
  } else if (!options.loss->classes()) {
    analyze_curved(ntk, data, options, findings);
  } else {
    analyze_classes(ntk, data, options, findings);
  }
  return findings;
}

Findings analyze(const kernel::Model& model, const train::TrainData& data,
                 const AnalysisOptions& options) {
  const auto start = Clock::now();
  const auto ntk = start_kernel(model, data, options);
  const double seconds = seconds_since(start);
  Findings findings = analyze(model, ntk, data, options);
  findings.kernel_seconds += seconds;
  return findings;
}

Findings analyze(const Problem& problem, const AnalysisOptions& options) {
  Findings findings = analyze(problem.model, problem.data, options);
  findings.source = problem.table.source;
  for (const int64_t row : problem.split.train) {
    if (problem.table.rows() == 0) break;  // made from a table that somebody else keeps
    findings.lines.push_back(problem.table.lines[static_cast<size_t>(row)]);
  }
  if (findings.classes) {
    findings.classes->conflicts = problem.conflicts;
    findings.classes->warnings = classes_without_rows(problem);
  }
  if (findings.curved) findings.curved->conflicts = problem.conflicts;
  return findings;
}

std::string reason_to_skip(const Problem& problem, const train::TrainOptions& training) {
  if (training.batch > 0 && training.batch < problem.data.x.size(0)) {
    return "it looks at all samples at once, and training is by batches";
  }
  if (!training.loss->traits().has_curvature()) {
    return "the loss " + to_string(training.loss) + " has no curvature";
  }
  const KernelCost cost = kernel_cost(problem, problem.data.x.size(0));
  if (cost.kernel_seconds + cost.spectrum_seconds > kSecondsUnasked ||
      cost.bytes > training.memory_bytes) {
    return fmt::format("a kernel of {} rows would take {}", cost.outputs, to_text(cost));
  }
  return "";
}

/// What acts on each mode by itself, if something does.
static std::optional<control::Law> law_of(const train::TrainOptions& training,
                                          const control::Certificate& found,
                                          const dynamics::Modes& modes) {
  // A gain matrix, or modes of weighted errors, are others than the kernel's.
  if (std::isnan(found.gain) || !found.spectrum.defined()) return std::nullopt;
  const torch::Tensor values = found.spectrum[0].cpu();
  const double rounding = 1e-5 * modes.largest();
  if (values.sizes() != modes.values.sizes() ||
      !torch::allclose(values, modes.values.cpu(), 1e-3, rounding)) {
    return std::nullopt;
  }
  if (train::only_arrives(training)) {
    return control::damped(control::damping_like(training.q, training.p));
  }
  if (training.shape != 0) return std::nullopt;
  const auto made = control::design(control::Plant::of_modes(modes, {}),
                                    {.q = training.q, .p = training.p}, training.design);
  const auto* modal = dynamic_cast<const control::ModalController*>(made.get());
  return modal != nullptr ? std::optional(modal->law()) : std::nullopt;
}

void promise(Findings& findings, train::Trainer& trainer, const train::TrainOptions& training) {
  const Tensor theta = std::exchange(findings.theta, {});
  const control::Certificate found = trainer.prepare(theta);
  analysis::promise(findings.preflight, found);
  auto& rates = findings.preflight.findings.rates;
  if (!found.empty() && !rates.empty()) {
    std::vector<double> asked;
    for (const analysis::RateRow& row : rates) asked.push_back(row.learning_rate);
    const double factor = loss::gradient_factor(training.loss, findings.modes.size());
    rates = analysis::rate_table(findings.modes, factor, asked,
                                 law_of(training, found, findings.modes));
  }
  if (!found.empty() && std::isfinite(found.rate)) findings.preflight.learning_rate = found.rate;
}

Tuning best_tuning(const Findings& findings, const train::Method& method) {
  const auto& forecast = findings.preflight.findings.forecast;
  CDT_REQUIRE(forecast, "tuning needs findings with a forecast");
  const auto& best =
      method->controlled || !forecast->best_descent ? forecast->best : *forecast->best_descent;
  Tuning tuning;
  tuning.learning_rate = best.candidate.learning_rate;
  if (best.candidate.controlled) tuning.p = best.candidate.p;
  tuning.steps = best.step;
  tuning.validation_loss = best.validation_loss;
  return tuning;
}

std::vector<analysis::TrialFindings> run_trials(const kernel::Model& model, const torch::Tensor& x,
                                                const torch::Tensor& y,
                                                const dynamics::Modes& modes,
                                                const analysis::Preflight& preflight, int64_t steps,
                                                int64_t curvature_products) {
  std::vector<analysis::TrialFindings> trials;
  const double factor = loss::gradient_factor(preflight.loss, y.numel());
  const auto controller = control::design(
      control::Plant::of_modes(modes, {.gradient_factor = factor, .rate = preflight.learning_rate}),
      {.q = preflight.q, .p = preflight.rho}, preflight.design);
  for (const bool controlled : {false, true}) {
    const auto seed = [&](const torch::Tensor& outputs) {
      const torch::Tensor error = outputs - y;
      return factor * (controlled ? controller->steer(error) : error);
    };
    kernel::PathOptions options;
    options.steps = steps;
    options.curvature.products = curvature_products;
    const auto path = kernel::record_path(model, x, preflight.learning_rate, seed, options);
    analysis::Trial trial;
    trial.controlled = controlled;
    trial.outputs = path.outputs;
    trial.local_outputs = path.local_outputs;
    trial.displacements = path.displacements;
    trial.target = y;
    trial.hessian_norm = path.curvature.norm;
    trial.hessian_accuracy = path.curvature.accuracy;
    trial.kappa = controlled ? preflight.radius_cdt : preflight.stability.kappa;
    trials.push_back(analysis::assess_trial(trial));
  }
  return trials;
}

}  // namespace cdt::study
