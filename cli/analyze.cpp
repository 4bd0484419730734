// cdt analyze: the pre-flight report, of a table, arrays or pictures and a network, a saved model,
// or a kernel.
#include <cdt/analysis/preflight.h>
#include <cdt/core/error.h>
#include <cdt/core/text/format.h>
#include <cdt/data/read.h>
#include <cdt/run/settings.h>
#include <cdt/study/examine.h>
#include <cdt/study/parts/cost.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/scope.h>
#include <fmt/format.h>

#include "cli/help.h"
#include "cli/study_options.h"

namespace cdt::cli {
namespace {

/// Above this number of rows, the cost of the analysis is announced first.
constexpr int64_t kManyRows = 2000;
/// A trial that was not requested is skipped if it would take more seconds than this.
constexpr double kLongTrial = 20;

struct AnalyzeCommand {
  run::Options run;  ///< data and network
  KernelSource source;
  DesignOptions design;
  MachineOptions machine;
  OutputOptions output;
  int64_t trial_steps = 20;
  int64_t curvature_products = 0;
  bool forecast = false;
  const CLI::App* app = nullptr;
  std::vector<const CLI::Option*> of_tables;  ///< options that apply only to a CSV file
};

/// Without a model, --inputs and --labels are arrays to learn.
AnalyzeCommand with_arrays(AnalyzeCommand options) {
  if (!options.source.model.empty() || !options.source.kernel.empty()) return options;
  std::string& inputs = options.source.inputs;
  CDT_REQUIRE(inputs.empty() || options.run.data.file.empty(),
              "FILE and --inputs exclude each other, unless there is a --model");
  if (!inputs.empty()) options.run.data.file = std::exchange(inputs, "");
  if (data::format_of(options.run.data.file).arrays) {
    options.run.data.labels = std::exchange(options.design.labels, "");
  } else {
    if (options.app->count("--inputs") > 0) require_arrays(options.run.data.file);
  }
  return options;
}

void analyze_table(const AnalyzeCommand& options, torch::Device device) {
  CDT_REQUIRE(
      options.source.kernel.empty() && options.source.model.empty(),
      "a CSV file goes without --kernel and --model: its network is made of --hidden and so on");
  CDT_REQUIRE(options.design.labels.empty() && options.design.outputs.empty(),
              "--labels and --outputs go with --kernel; a CSV file has its --target");
  study::AnalysisOptions settings;
  settings.loss = options.design.loss;
  study::DataOptions data = options.run.data;
  data.is_pictures = study::holds_pictures(data.file);
  CDT_REQUIRE(data.is_pictures || !data.targets.empty() || data::format_of(data.file).arrays,
              "a CSV file needs --target, the columns to learn");
  show_reading(data.csv, options.output.quiet);
  study::NetworkOptions network = options.run.network;
  run::Options as_run = options.run;
  as_run.data = data;
  as_run.training.loss = options.design.loss;
  run::require_fitting(as_run);
  // A configuration file may contain settings for other commands.
  if (options.output.config.empty()) study::require_read(as_run);
  if (data.is_pictures && !as_run.given.contains("arch")) {
    network.choose(study::kUsualPictureNetwork);
    if (as_run.given.contains("hidden")) network.hidden = options.run.network.hidden;
  }
  data.pictures.progress = [show = progress("pictures", "decoded", options.output.quiet)](
                               int64_t done, int64_t total) { show(done, total, ""); };
  data.learn_by(*settings.loss);
  study::Problem problem = study::load_problem(data, network, options.run.training.seed, device);
  if (!options.output.quiet) {
    for (const std::string& text : data::warnings_of(problem.table)) warn(text);
    if (data.is_pictures) {
      for (const std::string& note : problem.notes) complain(note);
    }
  }
  const auto rows = static_cast<int64_t>(problem.split.train.size());
  const int64_t fits = study::most_rows_to_analyze(problem, options.source.memory_mb << 20);
  if (options.design.learning_rate > 0) settings.learning_rate = options.design.learning_rate;
  settings.p = options.design.p;
  settings.q = options.design.q;
  settings.design = options.design.controller;
  settings.reach_steps = options.design.reach_steps;
  settings.memory_bytes = options.source.memory_mb << 20;
  std::string of_all;
  // Classes and forecasts need all modes; passes over pictures are expensive.
  if (fits < rows && settings.loss->quadratic() && !options.forecast && problem.data.x.dim() == 2) {
    if (!options.output.quiet) {
      complain(fmt::format(
          "a kernel of all {} rows would take {}; by products with it instead (--train-rows {} "
          "would take its modes)",
          rows, study::to_text(study::kernel_cost(problem, rows)), fits));
    }
    settings.progress = [show = progress("products", "vectors", options.output.quiet)](
                            int64_t done, int64_t total) { show(done, total, ""); };
    const auto found = study::analyze_by_products(problem, settings);
    options.output.text(fmt::format("{}: {} as training samples of a network {}\n",
                                    options.run.data.file, count_of(rows, "row"),
                                    problem.model->describe()) +
                        to_text(found));
    options.output.write_json(to_json(found));
    return;
  }
  if (fits < rows) {
    of_all = fmt::format(" drawn from {}", rows);
    if (!options.output.quiet) {
      complain(fmt::format(
          "a kernel of all {} rows would take {}; taking {} of them (--train-rows chooses)", rows,
          study::to_text(study::kernel_cost(problem, rows)), fits));
    }
    problem = study::first_rows(problem, fits);
  } else if (!options.output.quiet && rows > kManyRows) {
    complain(fmt::format("a kernel of {} rows: {}", rows,
                         study::to_text(study::kernel_cost(problem, rows))));
  }
  settings.trial_steps = options.trial_steps;
  settings.curvature_products = options.curvature_products;
  if (options.app->count("--trial-steps") == 0) {
    const double seconds = study::trial_seconds(problem, options.trial_steps);
    if (seconds > kLongTrial) settings.trial_steps = 0;
    if (seconds > kLongTrial && !options.output.quiet) {
      complain(
          fmt::format("a trial of {} steps would take some {:.0f} s and is left out "
                      "(--trial-steps decides)",
                      options.trial_steps, seconds));
    }
  }
  settings.forecast = options.forecast;
  settings.progress = [show = progress("kernel", "blocks", options.output.quiet)](
                          int64_t done, int64_t total) { show(done, total, ""); };
  const std::string head =
      fmt::format("{}: {}{} as training samples of a network {}\n", options.run.data.file,
                  count_of(static_cast<int64_t>(problem.split.train.size()),
                           data.is_pictures ? "picture" : "row"),
                  of_all, problem.model->describe());
  const analysis::Preflight found = study::analyze(problem, settings);
  options.output.text(head + to_text(found));
  options.output.write_json(to_json(found));
}

void analyze_kernel(const AnalyzeCommand& options, torch::Device device) {
  CDT_REQUIRE(!options.forecast, "--forecast needs a CSV file: it looks at validation rows");
  CDT_REQUIRE(!options.design.loss->classes(),
              "--loss cross-entropy needs a CSV file: its --target names the classes");
  CDT_REQUIRE(options.design.loss->quadratic(), "--loss ", options.design.loss->name(),
              " needs a CSV file: it is analysed at the outputs of a network");
  CDT_REQUIRE(!options.source.kernel.empty() || !options.source.model.empty(),
              "a CSV file, arrays (--inputs, --labels), a kernel file (--kernel) or a model with "
              "inputs (--model, --inputs) is needed");
  for (const CLI::Option* option : options.of_tables) {
    // A configuration file may contain settings for other commands.
    CDT_REQUIRE(option->count() == 0 || !options.output.config.empty(), option->get_name(),
                " is for a CSV file; it does not go with --kernel or --model");
  }
  const LoadedKernel kernel = load_kernel(options.source, device, options.output.quiet);
  analysis::PreflightOptions settings = options.design.load(kernel);
  const auto spectrum = decompose(kernel);
  if (settings.learning_rate == 0) {
    settings.learning_rate =
        0.5 * dynamics::unit_rate(spectrum, loss::gradient_factor(settings.loss, spectrum.size()));
  }
  settings.residual = true;
  auto preflight = analysis::analyze(kernel.theta, spectrum, settings);
  preflight.origin.kernel = kernel.report;
  if (kernel.model && settings.labels && options.trial_steps > 0) {
    preflight.outlook.trials =
        study::run_trials(*kernel.model, *kernel.inputs, *settings.labels, preflight,
                          options.trial_steps, options.curvature_products);
  }
  options.output.text(to_text(preflight));
  options.output.write_json(to_json(preflight));
}

int run_analyze(const AnalyzeCommand& command) {
  const torch::Device device = command.machine.apply();
  const AnalyzeCommand options = with_arrays(command);
  if (options.run.data.file.empty()) {
    analyze_kernel(options, device);
  } else {
    analyze_table(options, device);
  }
  return 0;
}

}  // namespace

std::function<int()> setup_analyze(CLI::App& app) {
  auto options = std::make_shared<AnalyzeCommand>();
  options->app = &app;
  add_data_options(app, options->run, /*required=*/false);
  add_network_options(app, options->run);
  add_setting(app, options->run, "seed")->description("of rows, split and network");
  const auto so_far = app.get_options();
  options->of_tables.assign(so_far.begin(), so_far.end());
  app.add_option("--trial-steps", options->trial_steps,
                 "steps of a trial on a copy of the network, under gradient descent and under CDT: "
                 "how far the local model holds; 0: none")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  app.add_option(
         "--curvature-products", options->curvature_products,
         "most products with second derivatives that a trial takes for the norm of ∂²ŷ/∂θ²; "
         "0: 400, or 60 for a large network")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_flag(
      "--forecast", options->forecast,
      "predict training and validation curves for a thousand rates and weights, and name the "
      "best (CSV file only)");
  options->source.add_to(app, /*kernel_from_file=*/true);
  // Without a model, these are arrays to learn.
  CLI::Option* inputs = app.get_option("--inputs");
  inputs->remove_needs(app.get_option("--model"));
  inputs->description(
      "inputs [r, features] of the model as .npy; without a model, data to learn: .npy or an "
      "array of an .npz archive (FILE.npz:NAME; default x)");
  options->design.add_to(app, /*rate_required=*/false);
  options->machine.add_to(app);
  options->output.add_to(app);
  add_help(app, {{OptionGroup::kData, "cdt analyze --kernel theta.npy --labels y.npy --lr 0.1"},
                 {OptionGroup::kModel, "cdt analyze h.csv --target price --hidden 500,500"},
                 {OptionGroup::kTraining, "cdt analyze pets --arch alexnet --rows 77 --lr 0.01"},
                 {OptionGroup::kControl, "cdt analyze h.csv --target price --forecast"},
                 {OptionGroup::kOutput, "cdt analyze h.csv --target price --json report.json"},
                 {OptionGroup::kMachine, "cdt analyze h.csv --target price --threads 4"}});
  return [options] { return run_analyze(*options); };
}

}  // namespace cdt::cli
