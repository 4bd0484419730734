// cdt train: from a CSV file to a trained network and its run folder.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/run/train.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/study_options.h"
#include "cli/train_summary.h"

namespace cdt::cli {
namespace {

struct TrainCommand {
  run::Options run;
  MachineOptions machine;
  OutputOptions output;
  std::string out;
  std::string resume;
  bool no_analysis = false;
  const CLI::App* app = nullptr;
};

/// What was given, by the names of run.json.
std::set<std::string> given_settings(const CLI::App& app) {
  std::set<std::string> names;
  for (const run::Setting& setting : run::all_settings()) {
    const std::string flag = setting.name == "file" ? "FILE" : "--" + setting.name;
    if (app.count(flag) > 0) names.insert(setting.name);
  }
  return names;
}

void warn_of_data(const study::Problem& problem) {
  constexpr size_t kShown = 5;
  for (const std::string& text : data::warnings_of(problem.table)) warn(text);
  for (size_t i = 0; i < std::min(kShown, problem.conflicts.size()); ++i) {
    const study::ConflictingRows& rows = problem.conflicts[i];
    warn(fmt::format("{}: lines {} are equal in every feature, but {}", problem.table.source,
                     fmt::join(rows.lines, ", "), rows.difference));
  }
  if (problem.conflicts.size() > kShown) {
    warn(fmt::format("… and {} more such groups; cdt data describe lists them",
                     problem.conflicts.size() - kShown));
  }
  for (const std::string& text : study::classes_without_rows(problem)) warn(text);
}

/// Words and progress while it runs; `interrupts` lives while Ctrl-C shall end the training only.
run::Hooks make_hooks(const TrainCommand& command, std::optional<InterruptScope>& interrupts) {
  const OutputOptions& output = command.output;
  run::Hooks hooks;
  hooks.on_phase = [&interrupts](run::Phase phase) {
    interrupts.reset();
    if (phase == run::Phase::kTraining) interrupts.emplace();
  };
  hooks.stop_requested = [] {
    const bool stop = InterruptScope::requested();
    if (stop) InterruptScope::acknowledge();
    return stop;
  };
  if (!output.quiet) hooks.on_problem = warn_of_data;
  hooks.on_findings = [&output](const study::Findings& findings) {
    output.text(study::to_text(findings));
  };
  hooks.on_skipped = [&output, &command](const std::string& reason) {
    const bool could = command.run.training.loss != dynamics::Loss::kMae;
    output.text(
        fmt::format("Analysis skipped: {}{}\n", reason, could ? "; cdt analyze does it" : ""));
  };
  hooks.on_kernel = [show = progress("kernel", "blocks", output.quiet)](
                        int64_t done, int64_t total) { show(done, total, ""); };
  hooks.on_step = [last = train::kUnknown, show = Progress(), &output](const train::StepRecord& row,
                                                                       int64_t steps) mutable {
    if (!show) show = progress("training", "steps", output.quiet);
    if (!std::isnan(row.train_loss)) last = row.train_loss;
    show(row.step, steps, fmt::format("loss {:.3e}", last));
  };
  hooks.on_note = [](const std::string& text) { complain(text + " (--batch decides)"); };
  hooks.on_warning = warn;
  return hooks;
}

int run_train(TrainCommand& command) {
  run::Options& options = command.run;
  options.device = command.machine.apply();
  options.threads = command.machine.threads;
  options.analysis = !command.no_analysis;
  options.resume = command.app->count("--resume") > 0;
  options.folder = command.resume.empty() ? command.out : command.resume;
  options.given = given_settings(*command.app);
  const std::filesystem::path json(command.output.json);
  CDT_REQUIRE(json.empty() || json == "-" || json.parent_path().empty() ||
                  folder_exists(json.parent_path()),
              "--json ", json.string(), ": there is no folder ", json.parent_path().string());
  CDT_REQUIRE(options.resume || options.overwrite || options.folder.empty() ||
                  !run::RunFolder(options.folder).holds_run(),
              options.folder.string(),
              ": holds a run already; continue it with --resume, replace it with --overwrite, or "
              "choose another --out");
  std::optional<InterruptScope> interrupts;
  const run::TrainedRun done = run::train(options, make_hooks(command, interrupts));
  command.output.text(summarize(done));
  command.output.write_json(run::to_json(done.record));
  if (done.result.outcome == train::Outcome::kInterrupted) return kInterrupted;
  return done.result.diverged() ? kFailed : 0;
}

}  // namespace

std::function<int()> setup_train(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  command->app = &app;
  run::Options& options = command->run;
  add_data_options(app, options.data, /*required=*/true);
  add_network_options(app, options.network);
  add_training_options(app, options.training, options.data);
  app.add_flag(
      "--tune", options.tune,
      "take rate, p and stopping step from the forecast of the analysis, where they are not "
      "given");
  app.add_flag("--no-analysis", command->no_analysis, "train without the pre-flight report");
  add_csv_safe(app, options.csv_safe);
  app.add_option("--out", command->out, "folder of the run; default: run1, run2, …")
      ->type_name(kOutputFolder);
  app.add_flag("--overwrite", options.overwrite, "replace a run that --out holds already");
  app.add_option("--resume", command->resume,
                 "continue an interrupted run, or a finished one with more --steps; its own "
                 "settings hold")
      ->expected(0, 1)
      ->type_name("[DIR]");
  command->machine.add_to(app);
  command->output.add_to(app);
  app.footer(
      "Examples:\n"
      "  cdt train houses.csv --target price --out run1\n"
      "  cdt train houses.csv --target price --method gd --lr 0.1 --steps 2000 --patience 50\n"
      "  cdt train houses.csv --target district --loss cross-entropy --patience 20\n"
      "  cdt train --resume run1 --steps 5000\n"
      "  cdt train --config experiment.toml --seed 2");
  return [command] { return run_train(*command); };
}

}  // namespace cdt::cli
