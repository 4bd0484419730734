#include <cdt/core/error.h>
#include <cdt/core/machine/speed.h>
#include <cdt/data/rows/conflicts.h>
#include <cdt/dynamics/loss_linearization.h>
#include <cdt/kernel/path.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/study/examine.h>
#include <cdt/study/parts/cost.h>
#include <fmt/format.h>

#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Longest pre-flight that runs without being asked for.
constexpr double kSecondsUnasked = 15;
/// Outputs of the rows whose kernel bounds the rank of one that is not formed.
constexpr int64_t kSampledOutputs = 2000;

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

analysis::PreflightOptions settings_of(const train::TrainData& data,
                                       const AnalysisOptions& options) {
  analysis::PreflightOptions settings;
  settings.loss = options.loss;
  settings.q = options.q;
  settings.rho = options.p;
  settings.design = options.design;
  settings.smoothing = options.smoothing;
  settings.reach_steps = options.reach_steps;
  settings.residual = options.residual;
  settings.labels = data.y.to(torch::kFloat64);
  const bool controlled = options.method->controlled;
  settings.choose_rate = [=](double near, double anywhere) {
    return options.examined_rate(controlled || anywhere == 0 ? near : anywhere);
  };
  return settings;
}

/// A row conflicts with others of the file; the kernel cannot tell them apart either.
std::vector<analysis::Conflict> conflicts_of(const Problem& problem) {
  std::vector<analysis::Conflict> conflicts;
  for (const ConflictingRows& rows : problem.conflicts) {
    analysis::Conflict& conflict = conflicts.emplace_back();
    conflict.kind = analysis::Conflict::Kind::kDuplicateConflict;
    conflict.lines = rows.lines;
    conflict.difference = rows.difference;
  }
  return conflicts;
}

/// Rows of x that equal an earlier one to the last bit.
int64_t count_equal_rows(const Tensor& x) {
  const Tensor rows = x.cpu().flatten(1).contiguous();
  const auto width = static_cast<size_t>(rows.size(1)) * c10::elementSize(rows.scalar_type());
  const auto* bytes = static_cast<const char*>(rows.data_ptr());
  const auto row = [&](int64_t i) {
    return std::string_view(bytes + static_cast<size_t>(i) * width, width);
  };
  int64_t equal = 0;
  for (const auto& members : data::group_equal(
           rows.size(0), [&](int64_t i) { return std::hash<std::string_view>()(row(i)); },
           [&](int64_t a, int64_t b) { return row(a) == row(b); })) {
    equal += static_cast<int64_t>(members.size()) - 1;
  }
  return equal;
}

}  // namespace

double AnalysisOptions::examined_rate(double unit) const {
  return learning_rate.value_or(train::start_rate(method->path ? "guarded" : method, unit));
}

AnalysisOptions analysis_of(const train::TrainOptions& training) {
  AnalysisOptions options;
  options.loss = training.loss;
  options.learning_rate = training.learning_rate;
  options.method = training.method;
  options.p = training.p;
  options.design = training.design;
  options.q = training.q;
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

analysis::Preflight analyze(const kernel::Model& model, const kernel::Ntk& ntk,
                            const train::TrainData& data, const AnalysisOptions& options) {
  CDT_REQUIRE(!options.forecast || options.loss->quadratic(),
              "a forecast is for quadratic losses; ", to_string(options.loss),
              " has no closed form");
  analysis::PreflightOptions settings = settings_of(data, options);
  if (data.x.is_floating_point()) settings.inputs = data.x;
  settings.outputs = ntk.outputs.to(torch::kFloat64).view(data.y.sizes());
  settings.network_dtype = ntk.network_dtype;
  analysis::Preflight found = analysis::analyze(ntk.theta, settings);
  found.origin.kernel = ntk.brief_report();
  found.origin.theta = ntk.theta;
  if (!options.loss->quadratic()) return found;
  const Tensor labels = settings.labels->reshape({-1});
  if (options.trial_steps > 0) {
    found.outlook.trials =
        run_trials(model, data.x, labels, found, options.trial_steps, options.curvature_products);
  }
  if (options.forecast) {
    found.outlook.forecast = predict_training(model, data, options, found.plant->modes(),
                                              settings.outputs->reshape({-1}) - labels);
  }
  return found;
}

analysis::Preflight analyze(const kernel::Model& model, const train::TrainData& data,
                            const AnalysisOptions& options) {
  const auto start = Clock::now();
  const auto ntk = start_kernel(model, data, options);
  const double seconds = seconds_since(start);
  analysis::Preflight found = analyze(model, ntk, data, options);
  found.origin.seconds += seconds;
  return found;
}

analysis::Preflight analyze(const Problem& problem, const AnalysisOptions& options) {
  analysis::Preflight found = analyze(problem.model, problem.data, options);
  found.origin.file = problem.table.source;
  for (const int64_t row : problem.split.train) {
    if (problem.table.rows() == 0) break;  // the caller keeps the table
    found.origin.lines.push_back(problem.table.lines[static_cast<size_t>(row)]);
  }
  if (!found.curvature) return found;
  found.reach.conflicts = conflicts_of(problem);
  if (found.curvature->smoothing) found.curvature->warnings = classes_without_rows(problem);
  return found;
}

analysis::Preflight analyze_by_products(const Problem& problem, const AnalysisOptions& options) {
  const train::TrainData& data = problem.data;
  const auto start = Clock::now();
  const kernel::Model model(problem.model);
  kernel::OperatorOptions wanted;
  wanted.memory_bytes = options.memory_bytes;
  wanted.accumulate = model.dtype();
  const kernel::NtkOperator theta(model, data.x, wanted);

  analysis::ProductKernel kernel;
  kernel.samples = data.x.size(0);
  kernel.outputs = data.y.size(1);
  kernel.parameters = problem.model->parameter_count();
  kernel.trace = theta.trace();
  kernel.times = [&](const Tensor& columns) {
    return theta.apply(columns.to(model.dtype())).to(torch::kFloat64);
  };
  kernel::NtkOptions ntk;
  ntk.memory_bytes = options.memory_bytes;
  const int64_t rows =
      std::min(kernel.samples, std::max<int64_t>(1, kSampledOutputs / kernel.outputs));
  kernel.part = kernel::empirical_ntk(model, data.x.narrow(0, 0, rows), ntk).theta;
  kernel.equal_rows = count_equal_rows(data.x);
  kernel.network_dtype = model.dtype();
  kernel.device = data.x.device();
  kernel.progress = options.progress;
  analysis::Preflight found = analysis::analyze(kernel, settings_of(data, options));
  found.origin.file = problem.table.source;
  found.reach.conflicts = conflicts_of(problem);
  found.state.loss =
      dynamics::output_loss(options.loss, theta.outputs().to(torch::kFloat64).view(data.y.sizes()),
                            data.y.to(torch::kFloat64));
  found.products->seconds = seconds_since(start);
  return found;
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

void promise(analysis::Preflight& preflight, train::Trainer& trainer,
             const train::TrainOptions& training) {
  const Tensor theta = std::exchange(preflight.origin.theta, {});
  const control::Certificate found = trainer.prepare(theta);
  if (found.empty()) return;
  analysis::promise(preflight, found);
  if (auto& others = preflight.rates.others; !others.empty()) {
    std::vector<double> asked;
    for (const analysis::RateRow& row : others) asked.push_back(row.learning_rate);
    const control::Plant& plant = *preflight.plant;
    others = analysis::rate_table(plant.modes(), plant.gradient_factor(), asked,
                                  law_of(training, found, plant.modes()));
  }
  if (std::isfinite(found.rate)) preflight.learning_rate = found.rate;
}

Tuning best_tuning(const analysis::Preflight& preflight, const train::Method& method) {
  const auto& forecast = preflight.outlook.forecast;
  CDT_REQUIRE(forecast, "tuning needs a pre-flight with a forecast");
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
                                                const analysis::Preflight& preflight, int64_t steps,
                                                int64_t curvature_products) {
  std::vector<analysis::TrialFindings> trials;
  const double factor = loss::gradient_factor(preflight.loss, y.numel());
  const auto controller = analysis::examined_controller(preflight);
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
    trial.kappa = controlled ? preflight.controller.radius.upper : preflight.stability.kappa.upper;
    trials.push_back(analysis::assess_trial(trial));
  }
  return trials;
}

}  // namespace cdt::study
