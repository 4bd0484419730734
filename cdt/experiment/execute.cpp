// Executes runs of a sweep, singly or several as one: table, kernel, training, record.
#include <ATen/Parallel.h>
#include <cdt/analysis/preflight.h>
#include <cdt/control/controller.h>
#include <cdt/core/machine/speed.h>
#include <cdt/core/text/numbers.h>
#include <cdt/core/tolerance.h>
#include <cdt/experiment/parts/learn_case.h>
#include <cdt/experiment/runner.h>
#include <cdt/kernel/ntk.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/passes/mlp_stack.h>
#include <cdt/study/examine.h>
#include <cdt/study/predictor.h>
#include <cdt/train/together.h>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <thread>

namespace cdt::experiment {
namespace {

using torch::Tensor;

/// Share of the largest stable rate; at the limit itself the fastest mode would not converge.
constexpr double kBestShare = 0.9;
/// Curves have every step up to here, where guarded runs have ended.
constexpr int64_t kDenseSteps = 50;
constexpr int64_t kTracedSamples = 3;
/// Maximum number of outputs of a cached kernel: 8 MB.
constexpr int64_t kLargestKept = 1000;

/// Whether the sweep sets the rate; otherwise training chooses it.
bool has_rate(const Case& what) { return what.lr > 0 || what.method == kGdBest; }

/// Computes what the runs of one architecture and seed share.
StartKernel make_start_kernel(const Plan& plan, const study::Problem& problem) {
  const auto start = Clock::now();
  kernel::NtkOptions options;
  options.memory_bytes = plan.memory_bytes;
  const auto ntk = kernel::empirical_ntk(problem.model, problem.data.x, options);
  const Tensor& theta = ntk.theta;
  StartKernel kernel;
  if (plan.loss->quadratic()) {
    kernel.modes =
        dynamics::decompose(theta, tol::rank_of_computed(theta.size(0), problem.model->dtype()));
    kernel.factor = loss::gradient_factor(plan.loss, kernel.modes.size());
    kernel.lr_max = 2 / kernel.modes.largest() / kernel.factor;
  } else {
    const auto plant = control::Plant::of(ntk, plan.loss, 1, problem.data.y);
    kernel.modes = plant.modes();
    kernel.factor = 1 / static_cast<double>(plant.classes()->samples);
    // ‖∂²L/∂ŷ²‖ ≤ 1/(2r): stable for any logits.
    kernel.lr_max = 4 / kernel.factor / torch::linalg_eigvalsh(theta).max().item<double>();
  }
  kernel.row_norm = to_vector(theta.norm(2, 1));
  kernel.seconds = seconds_since(start);
  return kernel;
}

/// Errors of the current network on the validation rows.
std::vector<TargetError> measure(const study::Problem& problem, const data::Table& table) {
  const torch::NoGradGuard no_graph;
  const Tensor outputs =
      study::mean_outputs(problem.model, problem.data.x_val);  // in float64, on the CPU
  const data::Preprocess& preprocess = problem.preprocess;
  return to_target_errors(
      study::measure_errors(preprocess, study::in_units(problem.model, preprocess, outputs),
                            preprocess.targets_in_units(table, problem.split.validation)));
}

void add_details(CaseRun& run, const Plan& plan, study::Problem& problem, const data::Table& table,
                 const control::ModalController& usual, train::Trainer& trainer) {
  // For the controller of the training; without one, for the paper's.
  const control::Certificate acts = trainer.prepare();
  const Tensor& s = usual.steps();
  const Tensor modes = acts.spectrum.defined()
                           ? acts.spectrum
                           : torch::stack({usual.plant().modes().values, s, usual.law().augments(s),
                                           usual.closed_loop()});
  run.eigenvalues = to_vector(modes[0].flip(0));
  run.gain = to_vector(modes[2].flip(0));
  run.factor_gd = to_vector((1 - modes[1]).flip(0));
  run.factor_cdt = to_vector(modes[3].flip(0));
  study::AnalysisOptions options;
  options.loss = plan.loss;
  options.learning_rate = run.lr;
  options.p = run.what.p;
  options.q = plan.q;
  options.memory_bytes = plan.memory_bytes;
  problem.table = table;
  analysis::Preflight found = study::analyze(problem, options);
  analysis::promise(found, acts);
  run.preflight = to_text(found);
}

/// Records outputs and labels of the first samples, which the split has drawn at random.
void add_traces(CaseRun& run, study::Problem& problem, const control::Controller& controller,
                bool controlled, int64_t step) {
  const torch::NoGradGuard no_graph;
  const Tensor outputs = problem.model->forward(problem.data.x).to(torch::kFloat64).reshape({-1});
  if (!torch::isfinite(outputs).all().item<bool>()) return;
  const Tensor labels = problem.data.y.reshape({-1});
  const Tensor augmented = controlled ? controller.augment(outputs, labels) : labels;
  const int64_t count = std::min(kTracedSamples, labels.numel());
  if (run.traces.empty()) {
    for (int64_t i = 0; i < count; ++i) run.traces.push_back({i, labels[i].item<double>(), {}, {}});
  }
  run.trace_step.push_back(step);
  for (int64_t i = 0; i < count; ++i) {
    run.traces[static_cast<size_t>(i)].outputs.push_back(outputs[i].item<double>());
    run.traces[static_cast<size_t>(i)].augmented.push_back(augmented[i].item<double>());
  }
}

void add_curve(CaseRun& run, const Plan& plan, const train::TrainResult& result) {
  for (const train::StepRecord& row : result.history) {
    const bool eventful = row.rejected > 0 || row.refreshed > 0;
    if (row.step > kDenseSteps && row.step % plan.validate_every != 0 && !eventful &&
        row.step != result.steps) {
      continue;
    }
    run.step.push_back(row.step);
    run.train.push_back(row.train_loss);
    run.val.push_back(row.val_loss);
    run.refreshed.push_back(row.refreshed);
    run.rejections.push_back(row.rejected);
  }
  if (!run.val.empty()) run.val.back() = result.val_loss;
}

}  // namespace

std::shared_ptr<const StartKernel> StartKernels::get(const std::string& key,
                                                     const std::function<StartKernel()>& make) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(key); found != kept_.end()) return found->second;
  }
  auto kernel = std::make_shared<const StartKernel>(make());
  if (kernel->modes.size() <= kLargestKept) {
    const std::lock_guard lock(mutex_);
    kept_.emplace(key, kernel);
  }
  return kernel;
}

namespace {

study::Problem problem_of(const Plan& plan, const Case& what, const data::Table& table,
                          torch::Device device) {
  return study::make_problem(table, data_of(plan), network_of(plan, what.architecture), what.seed,
                             device);
}

/// On a GPU all cores draw and encode rows, since this takes the host longer than a run's share of
/// the steps. On a CPU other jobs use them.
std::vector<study::Problem> problems_of(const Plan& plan, const std::vector<Case>& cases,
                                        const data::Table& table, torch::Device device) {
  std::vector<study::Problem> problems(cases.size());
  const size_t cores = device.is_cuda() ? std::max(1U, std::thread::hardware_concurrency()) : 1;
  const size_t threads = std::min(cases.size(), cores);
  std::vector<std::future<void>> parts;
  for (size_t first = 0; first < threads; ++first) {
    parts.push_back(std::async(std::launch::async, [&, first] {
      at::set_num_threads(1);
      for (size_t i = first; i < cases.size(); i += threads) {
        problems[i] = problem_of(plan, cases[i], table, device);
      }
    }));
  }
  for (std::future<void>& part : parts) part.get();
  return problems;
}

/// A run ready for training.
struct Started {
  study::Problem problem;
  CaseRun run;                                           ///< without the results of training
  std::unique_ptr<control::ModalController> controller;  ///< the paper's
  bool controlled = false;
  std::unique_ptr<train::Trainer> trainer;
};

Started start(const Plan& plan, const Case& what, const data::Table& table, study::Problem made,
              StartKernels& kernels) {
  Started started;
  started.problem = std::move(made);
  study::Problem& problem = started.problem;
  const auto start_kernel = kernels.get(fmt::format("{} {}", what.architecture, what.seed),
                                        [&] { return make_start_kernel(plan, problem); });
  const dynamics::Modes& modes = start_kernel->modes;
  CaseRun& run = started.run;
  run.what = what;
  run.shape = problem.model->describe();
  const double factor = start_kernel->factor;
  run.lr = what.lr > 0      ? what.lr
           : has_rate(what) ? kBestShare * start_kernel->lr_max
                            : train::start_rate(training_method(what.method),
                                                dynamics::unit_rate(modes, factor));
  const auto stability = analysis::assess_stability(modes, run.lr * factor);
  run.lambda_max = modes.largest();
  run.lr_max = start_kernel->lr_max;
  run.reachable = modes.rank == modes.size();
  run.strictly_contracting = stability.strictly_contracting;
  run.row_norm = start_kernel->row_norm;

  started.controller = std::make_unique<control::ModalController>(
      control::Plant::of_modes(modes, {.gradient_factor = factor, .rate = run.lr}),
      control::lqr(plan.q, what.p));
  train::TrainOptions options = options_of(plan, what).training;
  if (has_rate(what)) options.learning_rate = run.lr;
  started.controlled = options.method->controlled;
  started.trainer = std::make_unique<train::Trainer>(problem.model, problem.data, options,
                                                     nn::make_engine(problem.model));
  if (plan.loss->quadratic()) started.trainer->adopt(modes, start_kernel->seconds);
  if (what.details) {
    add_details(run, plan, problem, table, *started.controller, *started.trainer);
  }
  return started;
}

/// The run's result after training; empty if it was stopped.
std::optional<CaseRun> finish(const Plan& plan, Started started, const train::TrainResult& result,
                              const data::Table& table) {
  if (result.outcome == train::Outcome::kInterrupted) return std::nullopt;
  const study::Problem& problem = started.problem;
  CaseRun run = std::move(started.run);
  run.outcome = train::to_string(result.outcome);
  run.steps = result.steps;
  run.train_loss = result.diverged() ? train::kUnknown : result.train_loss;
  run.val_loss = result.diverged() ? train::kUnknown : result.val_loss;
  run.linearizations = result.linearizations;
  run.rejected = result.rejected;
  run.seconds = result.seconds;
  add_curve(run, plan, result);
  {
    const torch::NoGradGuard no_graph;
    const Tensor outputs = problem.model->forward(problem.data.x).to(torch::kFloat64);
    const bool logits = plan.loss->classes();
    run.final_error = to_vector((logits ? outputs.softmax(1) : outputs) - problem.data.y);
  }
  if (plan.errors && !result.diverged()) run.errors = measure(problem, table);
  const auto steps = static_cast<double>(result.steps + result.rejected);
  const nn::Operations sample = problem.model->operations_per_sample();
  run.operations = steps * sample.step * static_cast<double>(problem.data.x.size(0));
  if (problem.data.x_val.defined()) {
    run.operations += static_cast<double>(result.steps) / static_cast<double>(plan.validate_every) *
                      sample.forward * static_cast<double>(problem.data.x_val.size(0));
  }
  return run;
}

}  // namespace

std::optional<CaseRun> execute(const Plan& plan, const Case& what, const data::Table& table,
                               torch::Device device, StartKernels& kernels,
                               const std::function<bool()>& stop) {
  study::Problem problem = problem_of(plan, what, table, device);
  if (predicts(what.method)) return learn_to_predict(plan, what, table, problem, device, stop);
  Started started = start(plan, what, table, std::move(problem), kernels);
  train::TrainHooks hooks;
  hooks.stop_requested = stop;
  if (what.traces) {
    const auto trace = [&](int64_t step) {
      add_traces(started.run, started.problem, *started.controller, started.controlled, step);
    };
    trace(0);
    hooks.on_step = [&, trace](const train::StepRecord& row) {  // called after the step's update
      const int64_t step = row.step + 1;
      if (step % plan.validate_every == 0 && step <= what.steps) trace(step);
    };
  }
  const train::TrainResult result = started.trainer->run(hooks);
  return finish(plan, std::move(started), result, table);
}

std::optional<std::vector<CaseRun>> execute_together(const Plan& plan,
                                                     const std::vector<Case>& cases,
                                                     const data::Table& table, torch::Device device,
                                                     StartKernels& kernels,
                                                     const std::function<bool()>& stop) {
  std::vector<Started> started;
  std::vector<nn::Network> networks;
  std::vector<train::Trainer*> trainers;
  std::vector<study::Problem> problems = problems_of(plan, cases, table, device);
  for (size_t k = 0; k < cases.size(); ++k) {
    if (stop && stop()) return std::nullopt;
    started.push_back(start(plan, cases[k], table, std::move(problems[k]), kernels));
    networks.push_back(started.back().problem.model);
    trainers.push_back(started.back().trainer.get());
  }
  auto stack = train::Together::takes(trainers) ? nn::make_stack(networks) : std::nullopt;
  std::vector<CaseRun> runs;
  std::vector<train::TrainResult> results;
  if (stack) results = train::Together(trainers, std::move(*stack)).run(stop);
  for (size_t k = 0; k < started.size(); ++k) {
    if (!stack) {  // for example if a split gives seeds different numbers of rows
      train::TrainHooks hooks;
      hooks.stop_requested = stop;
      results.push_back(trainers[k]->run(hooks));
    }
    auto run = finish(plan, std::move(started[k]), results[k], table);
    if (!run) return std::nullopt;
    if (stack) run->together = static_cast<int64_t>(cases.size());
    runs.push_back(std::move(*run));
  }
  return runs;
}

}  // namespace cdt::experiment
