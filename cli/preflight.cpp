#include "cli/preflight.h"

#include <cdt/analysis/report.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/path.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <iostream>

namespace cdt::cli {

void TrainingOptions::add_to(CLI::App& app) {
  app.add_option("--method", method,
                 "guarded: every step is checked, no rate needed; cdt: the paper's; gd, gd-matched "
                 "(gd at lr·√(1 + q/p)), momentum, adam, lbfgs: to compare with")
      ->check(CLI::IsMember({"gd", "gd-matched", "cdt", "guarded", "momentum", "adam", "lbfgs"}))
      ->capture_default_str();
  app.add_option("--loss", loss,
                 "mse, half-mse, sse; cross-entropy: the target is a class, text or whole numbers; "
                 "mae: without control only")
      ->check(CLI::IsMember({"sse", "half-mse", "mse", "mae", "cross-entropy"}))
      ->capture_default_str();
  app.add_option("--smoothing", smoothing,
                 "of class labels: trained on (1 - ε)·label + ε/classes. Default: 0.1 for guarded "
                 "and cdt, which need it, else 0")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("ε");
  app.add_option("--lr", learning_rate, "learning rate α; default: found from the kernel")
      ->check(positive());
  app.add_option("--schedule", schedule,
                 "of the rate: constant, inverse α/(1 + decay·k), exponential, cosine, step")
      ->check(CLI::IsMember({"constant", "inverse", "exponential", "cosine", "step"}))
      ->capture_default_str();
  app.add_option("--decay", decay,
                 "of the schedule; alone it means inverse. Default: 0.01, of step 0.5")
      ->check(non_negative());
  app.add_option("--decay-period", decay_period, "steps between two decays of the schedule step")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--p", p, "weight on label augments, R = pI: smaller steers harder")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--q", q, "weight on errors, Q = qI")->check(positive())->capture_default_str();
  app.add_option("--shape", shape,
                 "spectral shaping: less q on modes with an eigenvalue below this share of the "
                 "largest, where noise is learned; 0: none")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--output-weights", output_weights,
                 "weights of the targets in the controller's Q, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive());
  app.add_option(
      "--relinearize", relinearize,
      "when to compute the kernel anew: never, every:N, kc, error:TOL or guard. Default: "
      "guard for guarded, never for cdt");
  app.add_option("--weight-decay", weight_decay, "adds ½·decay·‖θ‖² to the objective")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--batch", batch,
                 fmt::format("samples a step; 0 takes all (default: all up to a kernel of {}, else "
                             "half as many)",
                             kLargestKernel))
      ->check(non_negative());
  app.add_flag("--reshuffle", reshuffle,
               "new batches each epoch; otherwise they recur, and their controllers are kept");
  app.add_option("--steps", steps, "at most so many")->check(non_negative())->capture_default_str();
  app.add_option("--stop-loss", stop_loss, "stop at this training loss; 0: never")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--patience", patience,
                 "stop after so many steps without a better validation loss, and keep the best "
                 "weights; 0: off")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--plateau", plateau,
                 "stop after so many steps without a training loss lower by 0.01 %; 0: off")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--max-seconds", max_seconds, "stop after this time; 0: no limit")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--validate-every", validate_every, "steps between validation losses")
      ->check(positive())
      ->capture_default_str();
  app.add_flag("--linearization-error", linearization_error,
               "record how far the network has left its local model (a Jacobian-vector product a "
               "step)");
  app.add_option("--memory", memory_mb, "for the kernel's computation, in MB")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--checkpoint-seconds", checkpoint_seconds, "between checkpoints")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--seed", seed, "of rows, split, network and batches")
      ->check(non_negative())
      ->capture_default_str();
}

train::TrainOptions TrainingOptions::parse(Problem& problem, const CLI::App& app) const {
  train::TrainOptions options;
  options.method = train::parse_method(method);
  options.loss = dynamics::parse_loss(loss);
  if (app.count("--smoothing") > 0) options.smoothing = smoothing;
  if (app.count("--lr") > 0) options.learning_rate = learning_rate;
  const bool decays = app.count("--decay") > 0;
  options.schedule.kind = decays && app.count("--schedule") == 0 ? train::Schedule::Kind::kInverse
                                                                 : train::parse_schedule(schedule);
  options.schedule.decay = decays                                                  ? decay
                           : options.schedule.kind == train::Schedule::Kind::kStep ? 0.5
                                                                                   : 0.01;
  options.schedule.period = decay_period;
  options.p = p;
  options.q = q;
  options.shape = shape;
  if (!relinearize.empty()) options.relinearize = train::parse_relinearization(relinearize);
  options.weight_decay = weight_decay;
  if (!output_weights.empty()) {
    CDT_REQUIRE(output_weights.size() == problem.preprocess.targets.size(),
                "--output-weights: expected one weight a target, ",
                problem.preprocess.targets.size(), ", but came ", output_weights.size());
    problem.data.output_weights = torch::tensor(output_weights, torch::kFloat64);
  }
  options.batch = batch;
  if (app.count("--batch") == 0 && train::is_controlled(options.method) &&
      problem.data.y.numel() > kLargestKernel) {
    options.batch = std::max<int64_t>(1, kLargestKernel / 2 / problem.data.y.size(1));
    std::cerr << "cdt: a kernel of " << problem.data.y.numel()
              << " rows is large; training by batches of " << options.batch
              << " samples (--batch decides)\n";
  }
  options.reshuffle = reshuffle;
  options.seed = seed;
  options.steps = steps;
  options.stop_loss = stop_loss;
  options.patience = patience;
  options.plateau = plateau;
  options.max_seconds = max_seconds;
  options.validate_every = validate_every;
  options.linearization_error = linearization_error;
  options.memory_bytes = memory_mb << 20;
  options.checkpoint_seconds = checkpoint_seconds;
  return options;
}

std::vector<analysis::TrialFindings> run_trials(const kernel::Model& model, const torch::Tensor& x,
                                                const torch::Tensor& y,
                                                const dynamics::Modes& spectrum,
                                                const analysis::Preflight& preflight,
                                                int64_t steps) {
  std::vector<analysis::TrialFindings> trials;
  const double factor = dynamics::gradient_factor(preflight.loss, y.numel());
  const auto controller = control::design_spectral(spectrum, preflight.learning_rate * factor,
                                                   {preflight.q, preflight.rho, {}, {}});
  for (const bool controlled : {false, true}) {
    const auto seed = [&](const torch::Tensor& outputs) {
      const torch::Tensor error = outputs - y;
      return factor * (controlled ? controller.steer(error) : error);
    };
    kernel::PathOptions options;
    options.steps = steps;
    const auto path = kernel::record_path(model, x, preflight.learning_rate, seed, options);
    analysis::Trial trial;
    trial.controlled = controlled;
    trial.outputs = path.outputs;
    trial.local_outputs = path.local_outputs;
    trial.displacements = path.displacements;
    trial.target = y;
    trial.hessian_norm = path.curvature.norm;
    trial.kappa = controlled ? preflight.radius_cdt : preflight.stability.kappa;
    trials.push_back(analysis::assess_trial(trial));
  }
  return trials;
}

Findings analyze_problem(const Problem& problem, const AnalysisOptions& options, bool quiet) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  kernel::NtkOptions ntk_options;
  ntk_options.memory_bytes = options.memory_mb << 20;
  ntk_options.progress = [show = progress("kernel", "blocks", quiet)](int64_t done, int64_t total) {
    show(done, total, "");
  };
  const auto ntk = kernel::empirical_ntk(problem.model, problem.data.x, ntk_options);
  Findings findings;
  findings.spectrum =
      dynamics::decompose(ntk.theta, tol::rank_of_computed(ntk.theta.size(0), ntk.network_dtype));
  findings.kernel_seconds = std::chrono::duration<double>(Clock::now() - start).count();

  analysis::PreflightOptions settings;
  settings.loss = dynamics::parse_loss(options.loss);
  const double factor = dynamics::gradient_factor(settings.loss, problem.data.y.numel());
  settings.q = options.q;
  settings.rho = options.p;
  settings.reach_steps = options.reach_steps;
  settings.inputs = problem.data.x;
  settings.outputs_per_sample = problem.data.y.size(1);
  settings.labels = problem.data.y.reshape({-1});
  settings.outputs = ntk.outputs.to(torch::kFloat64).reshape({-1});
  settings.learning_rate = options.learning_rate.value_or(train::start_rate(
      train::parse_method(options.method), dynamics::unit_rate(findings.spectrum, factor)));
  findings.preflight = analysis::analyze(ntk.theta, findings.spectrum, settings);
  findings.preflight.riccati_residual = control::riccati_residual(
      control::design_spectral(findings.spectrum, settings.learning_rate * factor,
                               {settings.q, settings.rho, {}, {}}),
      ntk.theta);
  if (options.trial_steps > 0) {
    findings.preflight.findings.trials =
        run_trials(problem.model, problem.data.x, *settings.labels, findings.spectrum,
                   findings.preflight, options.trial_steps);
  }
  if (options.forecast) {
    CDT_REQUIRE(problem.data.x_val.defined(),
                "a forecast needs validation rows: --train-fraction below 1");
    ntk_options.progress = {};
    const auto cross =
        kernel::empirical_ntk(problem.model, problem.data.x_val, problem.data.x, ntk_options);
    const torch::Tensor gap =
        cross.outputs.to(torch::kFloat64).reshape({-1}) - problem.data.y_val.reshape({-1});
    control::ForecastOptions grid;
    grid.q = options.q;
    const auto modes = dynamics::modal_problem(
        findings.spectrum, *settings.outputs - *settings.labels, cross.theta, gap);
    findings.preflight.findings.forecast =
        analysis::summarize(control::forecast(modes, settings.loss, grid));
  }
  findings.text = analysis::to_text(findings.preflight);
  std::string where;  // beside the advice to look at them
  for (const auto& conflict : findings.preflight.conflicts) {
    std::vector<int64_t> lines;
    for (const int64_t sample : conflict.rows) {
      const int64_t row = problem.split.train[static_cast<size_t>(sample)];
      lines.push_back(problem.table.lines[static_cast<size_t>(row)]);
    }
    constexpr int64_t kShown = 12;
    const auto count = static_cast<int64_t>(lines.size());
    const int64_t shown = std::min(kShown, count);
    where += fmt::format("    samples {}{} are lines {}{} of {}\n",
                         fmt::join(conflict.rows.begin(), conflict.rows.begin() + shown, ", "),
                         count > shown ? ", …" : "",
                         fmt::join(lines.begin(), lines.begin() + shown, ", "),
                         count > shown ? ", …" : "", problem.table.source);
  }
  const size_t advised = findings.text.find("\nOther rates");
  findings.text.insert(advised == std::string::npos ? findings.text.size() : advised, where);
  findings.text += fmt::format("  kernel: {}\n", ntk.brief_report());
  return findings;
}

}  // namespace cdt::cli
