// cdt train: from a CSV file to a trained network and its run folder.
#include <ATen/Version.h>
#include <cdt/analysis/report.h>
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/version.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/saved_model.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>

#include "cli/class_analysis.h"
#include "cli/classes.h"
#include "cli/preflight.h"
#include "cli/speed.h"
#include "cli/train_summary.h"

namespace cdt::cli {
namespace {

using nlohmann::ordered_json;
using torch::Tensor;

/// Settings that a resumed run may change: they say how long, not what.
constexpr std::array kMayChange{"steps",   "stop-loss", "patience", "plateau",    "max-seconds",
                                "threads", "device",    "memory",   "no-analysis"};
/// TrainCommand that are no settings of the run.
constexpr std::array kNoSettings{"help", "config", "resume", "out", "overwrite", "json", "quiet"};

struct TrainCommand {
  DataOptions data;
  NetworkOptions network;
  TrainingOptions training;
  MachineOptions machine;
  OutputOptions output;
  std::string out;
  std::string resume;
  bool resumed = false;
  bool overwrite = false;
  bool no_analysis = false;
  bool tune = false;
  const CLI::App* app = nullptr;
};

std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? "file" : option.get_lnames().front();
}

template <size_t N>
bool among(const std::array<const char*, N>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What was given, and what stood in for the rest; run.json holds both.
ordered_json settings_of(const CLI::App& app, bool given) {
  ordered_json settings = ordered_json::object();
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = name_of(*option);
    if (among(kNoSettings, name) || (option->count() > 0) != given) continue;
    if (!given) {
      if (!option->get_default_str().empty()) settings[name] = option->get_default_str();
    } else if (option->get_items_expected_max() == 0) {
      settings[name] = true;
    } else {
      const auto& values = option->results();
      settings[name] = values.size() == 1 ? ordered_json(values[0]) : ordered_json(values);
    }
  }
  return settings;
}

/// A resumed run must be the same run. `now` and `saved` hold what was given and the defaults.
void require_same_run(const ordered_json& now, const ordered_json& saved,
                      const std::string& folder) {
  const auto value = [](const ordered_json& run, const std::string& name) {
    for (const char* part : {"settings", "defaults"}) {
      if (run.at(part).contains(name)) return run.at(part).at(name).dump();
    }
    return std::string("not given");
  };
  const auto same = [](const std::string& a, const std::string& b) {
    if (a == b) return true;
    const auto number = [](const std::string& text) {  // "0.10" is "0.1"
      char* end = nullptr;
      const double value = std::strtod(text.c_str() + 1, &end);
      return *end == '"' && end != text.c_str() + 1 ? value : train::kUnknown;
    };
    return number(a) == number(b);
  };
  for (const char* part : {"settings", "defaults"}) {
    for (const auto& [name, unused] : now.at(part).items()) {
      const bool fixed =
          !among(kMayChange, name) || (name == "steps" && value(saved, "schedule") == "\"cosine\"");
      CDT_REQUIRE(!fixed || same(value(now, name), value(saved, name)), folder,
                  ": was started with --", name, " ", value(saved, name),
                  ", and cannot be resumed with ", value(now, name));
    }
  }
}

void warn(const std::string& text) { std::cerr << "cdt: warning: " << text << "\n"; }

void warn_of_conflicts(const Problem& problem) {
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, problem.conflicts.size()); ++i) {
    const ConflictingRows& rows = problem.conflicts[i];
    warn(fmt::format("{}: lines {} are equal in every feature, but {}", problem.table.source,
                     fmt::join(rows.lines, ", "), rows.difference));
  }
  if (problem.conflicts.size() > kShown) {
    warn(fmt::format("… and {} more such groups; cdt data describe lists them",
                     problem.conflicts.size() - kShown));
  }
}

AnalysisOptions analysis_options(const TrainingOptions& training) {
  AnalysisOptions options;
  options.loss = training.loss;
  if (training.learning_rate > 0) options.learning_rate = training.learning_rate;
  options.method = training.method;
  options.p = training.p;
  options.q = training.q;
  if (training.smoothing > 0) options.smoothing = training.smoothing;
  options.memory_mb = training.memory_mb;
  return options;
}

/// What the forecast advises: rate, weight, and where to stop.
ordered_json tuned(const Findings& findings, train::Method method) {
  const auto& forecast = *findings.preflight.findings.forecast;
  const auto& best = train::is_controlled(method) || !forecast.best_descent
                         ? forecast.best
                         : *forecast.best_descent;
  return {{"lr", best.candidate.learning_rate},
          {"p", best.candidate.controlled ? ordered_json(best.candidate.p) : ordered_json()},
          {"steps", best.step},
          {"val_loss", best.validation_loss}};
}

/// Takes the advice where the caller has not decided.
void tune(train::TrainOptions& training, const ordered_json& advice, const CLI::App& app) {
  if (app.count("--lr") == 0) training.learning_rate = advice.at("lr").get<double>();
  if (app.count("--p") == 0 && !advice.at("p").is_null()) training.p = advice.at("p");
  if (app.count("--steps") == 0) training.steps = advice.at("steps");
}

/// What can be said before training under a loss that is not quadratic.
void analyze_other_loss(const Problem& problem, const TrainCommand& options, ordered_json& run) {
  if (!problem.preprocess.has_classes() || problem.data.y.numel() > kLargestKernel) {
    options.output.text(
        fmt::format("Analysis skipped: {}\n", problem.preprocess.has_classes()
                                                  ? "the kernel is large; cdt analyze does it"
                                                  : "the mean absolute error has no curvature"));
    return;
  }
  AnalysisOptions wanted = analysis_options(options.training);
  const auto findings = analyze_classes(problem, wanted, options.output.quiet);
  run["analysis"] = findings.json;
  run["analysis_text"] = findings.text;
  options.output.text(findings.text);
}

int run_train(TrainCommand& options) {
  const auto start = Clock::now();
  const torch::Device device = options.machine.apply();
  if (!options.resume.empty()) options.out = options.resume;
  const RunFolder folder(options.out.empty() ? next_free_folder()
                                             : std::filesystem::path(options.out));
  const std::filesystem::path json(options.output.json);
  CDT_REQUIRE(json.empty() || json == "-" || json.parent_path().empty() ||
                  std::filesystem::is_directory(json.parent_path()),
              "--json ", json.string(), ": there is no folder ", json.parent_path().string());
  ordered_json run{{"format", "cdt-run-1"},
                   {"version", kVersion},
                   {"revision", kRevision},
                   {"settings", settings_of(*options.app, true)},
                   {"defaults", settings_of(*options.app, false)},
                   {"seed", options.training.seed}};
  run["settings"]["file"] = std::filesystem::absolute(options.data.csv.path).string();
  options.data.classes = options.training.loss == "cross-entropy";
  Problem problem = load_problem(options.data, options.network, options.training.seed, device);
  const double load_seconds = seconds_since(start);
  run["data"] = {
      {"file", run["settings"]["file"]},     {"checksum", problem.checksum},
      {"rows", problem.table.rows()},        {"features", problem.preprocess.feature_count()},
      {"train", problem.split.train.size()}, {"validation", problem.split.validation.size()}};
  run["network"] = {{"shape", problem.model->describe()},
                    {"parameters", problem.model->parameter_count()}};
  run["machine"] = {
      {"device", device.str()}, {"threads", torch::get_num_threads()}, {"libtorch", TORCH_VERSION}};
  train::TrainOptions training = options.training.parse(problem, *options.app);
  CDT_REQUIRE(!options.tune || !options.no_analysis,
              "--tune chooses by the analysis: it goes without --no-analysis");
  CDT_REQUIRE(!options.tune || dynamics::is_quadratic(training.loss),
              "--tune forecasts quadratic losses only, not ", options.training.loss);
  std::optional<train::Trainer> trainer;
  trainer.emplace(problem.model, problem.data, training, nn::make_engine(problem.model));
  if (options.resumed) {
    const auto saved = ordered_json::parse(read_file(folder.run()));
    require_same_run(run, saved, folder.path().string());
    CDT_REQUIRE(saved.at("data").at("checksum") == problem.checksum, options.data.csv.path,
                ": the file has changed since the run started");
    for (const char* part : {"analysis", "analysis_text"}) {
      if (saved.contains(part)) run[part] = saved[part];
    }
    if (options.tune && saved.contains("tuned")) {
      run["tuned"] = saved["tuned"];
      tune(training, run["tuned"], *options.app);
      trainer.emplace(problem.model, problem.data, training, nn::make_engine(problem.model));
    }
    // None yet: it was interrupted before its first step, and starts anew.
    if (std::filesystem::exists(folder.checkpoint())) {
      try {
        trainer->restore(load_safetensors(folder.checkpoint()));
      } catch (const InvalidArgument& error) {
        throw InvalidArgument(c10::str(folder.checkpoint().string(), ": ", error.what()));
      }
    }
  } else {
    folder.create(options.overwrite);
  }
  run["result"] = nullptr;
  write_file_atomically(folder.run(), {run.dump(2), "\n"});
  write_file_atomically(folder.preprocess(), {data::to_json(problem.preprocess), "\n"});
  if (!options.resumed) folder.forget_results();
  if (!options.output.quiet) {
    warn_of_conflicts(problem);
    for (const std::string& text : classes_without_rows(problem)) warn(text);
  }

  double analysis_seconds = 0;
  if (!options.no_analysis && !options.resumed) {
    const auto began = Clock::now();
    const bool by_batches = training.batch > 0 && training.batch < problem.data.x.size(0);
    if (!dynamics::is_quadratic(training.loss) && !by_batches) {
      analyze_other_loss(problem, options, run);
    } else if (by_batches || problem.data.y.numel() > kLargestKernel) {
      CDT_REQUIRE(!options.tune, "--tune needs all samples at once, and they are too many: --rows");
      options.output.text(fmt::format(
          "Analysis skipped: {}; cdt analyze does it\n",
          by_batches ? "it looks at all samples at once, and training is by batches"
                     : fmt::format("a kernel of {} rows is large", problem.data.y.numel())));
    } else {
      AnalysisOptions wanted = analysis_options(options.training);
      wanted.forecast = options.tune;
      const auto findings = analyze_problem(problem, wanted, options.output.quiet);
      if (options.tune) {
        run["tuned"] = tuned(findings, training.method);
        tune(training, run["tuned"], *options.app);
        trainer.emplace(problem.model, problem.data, training, nn::make_engine(problem.model));
      }
      trainer->adopt(findings.spectrum, findings.kernel_seconds);
      run["analysis"] = ordered_json::parse(analysis::to_json(findings.preflight));
      run["analysis_text"] = findings.text;
      write_spectrum(folder, findings);
      options.output.text(findings.text);
    }
    analysis_seconds = seconds_since(began);
  }

  std::optional<InterruptScope> scope(std::in_place);
  train::TrainHooks hooks;
  hooks.stop_requested = InterruptScope::requested;
  double last_loss = train::kUnknown;
  hooks.on_step = [&, show = progress("training", "steps", options.output.quiet)](
                      const train::StepRecord& row) {
    if (!std::isnan(row.train_loss)) last_loss = row.train_loss;
    show(row.step, training.steps, fmt::format("loss {:.3e}", last_loss));
  };
  hooks.checkpoint = [&](const SafeTensors& content) {
    try {
      save_safetensors(folder.checkpoint(), content);
    } catch (const InvalidArgument& error) {
      warn(fmt::format("no checkpoint could be written, training goes on: {}", error.what()));
    }
  };
  const train::TrainResult result = trainer->run(hooks);
  scope.reset();

  write_file_atomically(folder.history(), {train::to_csv(result.history)});
  run["result"] = describe_result(result);
  run["errors"] = nullptr;
  if (result.diverged()) {
    std::error_code absent;  // a resumed run has a model from before it diverged
    std::filesystem::remove(folder.model(), absent);
    std::filesystem::remove(folder.predictions(), absent);
  } else {
    nn::save_model(folder.model(), problem.model);
    write_predictions(folder, problem);
    run["errors"] = describe_errors(problem);
  }
  run["seconds"] = {{"load", load_seconds},
                    {"analysis", analysis_seconds},
                    {"training", result.seconds},
                    {"total", seconds_since(start)}};
  write_file_atomically(folder.run(), {run.dump(2), "\n"});
  write_report(folder);
  options.output.text(summarize(problem, options.training, result, run["errors"], folder));
  options.output.write_json(run.dump(2));
  if (result.outcome == train::Outcome::kInterrupted) return kInterrupted;
  return result.diverged() ? kFailed : 0;
}

}  // namespace

std::function<int()> setup_train(CLI::App& app) {
  auto options = std::make_shared<TrainCommand>();
  options->app = &app;
  options->data.add_to(app, /*required=*/true);
  options->network.add_to(app);
  options->training.add_to(app);
  app.add_flag(
      "--tune", options->tune,
      "take rate, p and stopping step from the forecast of the analysis, where they are not "
      "given");
  app.add_flag("--no-analysis", options->no_analysis, "train without the pre-flight report");
  app.add_option("--out", options->out, "folder of the run; default: run1, run2, …")
      ->type_name("DIR");
  app.add_flag("--overwrite", options->overwrite, "replace a run that --out holds already");
  app.add_option("--resume", options->resume,
                 "continue an interrupted run, or a finished one with more --steps; its own "
                 "settings hold")
      ->expected(0, 1)
      ->type_name("[DIR]");
  options->machine.add_to(app);
  options->output.add_to(app);
  app.footer(
      "Examples:\n"
      "  cdt train houses.csv --target price --out run1\n"
      "  cdt train houses.csv --target price --method gd --lr 0.1 --steps 2000 --patience 50\n"
      "  cdt train houses.csv --target district --loss cross-entropy --patience 20\n"
      "  cdt train --resume run1 --steps 5000\n"
      "  cdt train --config experiment.toml --seed 2");
  return [options] {
    options->resumed = options->app->count("--resume") > 0;
    return run_train(*options);
  };
}

}  // namespace cdt::cli
