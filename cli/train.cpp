// cdt train: from a CSV file, arrays or pictures to a trained network and its run folder.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/text/format.h>
#include <cdt/kernel/record/precision_scope.h>
#include <cdt/run/settings.h>
#include <cdt/run/train.h>
#include <cdt/study/parts/pictures.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/help.h"
#include "cli/study_options.h"
#include "cli/train_summary.h"
#include "cli/workers.h"

namespace cdt::cli {
namespace {

struct TrainCommand {
  run::Options run;
  MachineOptions machine;
  OutputOptions output;
  Workers workers;
  std::string out;
  std::string resume;
  bool explain = false;
  bool dry_run = false;
  const CLI::App* app = nullptr;
};

/// The analysis names conflicts as well; this is for runs without one.
void warn_of_conflicts(const study::Problem& problem) {
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, problem.conflicts.size()); ++i) {
    const study::ConflictingRows& rows = problem.conflicts[i];
    warn(fmt::format("{}: {} {} are equal in every {}, but {}", problem.table.source,
                     problem.table.pictures ? "pictures" : "lines", list_rows(rows.lines),
                     problem.table.pictures ? "pixel" : "feature", rows.difference));
  }
  if (problem.conflicts.size() > kShown) {
    warn(fmt::format("… and {} more such groups{}", problem.conflicts.size() - kShown,
                     problem.table.pictures ? "" : "; cdt data describe lists them"));
  }
}

void warn_of_data(const study::Problem& problem) {
  for (const std::string& text : data::warnings_of(problem.table)) warn(text);
  for (const std::string& text : study::classes_without_rows(problem)) warn(text);
}

/// Messages and progress of a run; while `interrupts` exists, Ctrl-C ends only the training.
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
  auto analyzed = std::make_shared<bool>(false);
  hooks.on_decision = [&command, analyzed](const study::Decision& decision) {
    *analyzed = study::has_analysis(decision);
    if (command.explain) command.output.text(study::to_text(decision));
  };
  if (!output.quiet) {
    hooks.on_problem = [analyzed](const study::Problem& problem) {
      warn_of_data(problem);
      if (!*analyzed) warn_of_conflicts(problem);
      for (const std::string& note : problem.notes) complain(note);
    };
  }
  hooks.on_preflight = [&output](const analysis::Preflight& found) { output.text(to_text(found)); };
  hooks.on_skipped = [&output, &command](const std::string& reason) {
    const bool could =
        command.run.training.loss->quadratic() || command.run.training.loss->classes();
    output.text(
        fmt::format("Analysis skipped: {}{}\n", reason, could ? "; cdt analyze does it" : ""));
  };
  hooks.on_pictures = [show = progress("pictures", "decoded", output.quiet)](
                          int64_t done, int64_t total) { show(done, total, ""); };
  hooks.on_kernel = [show = progress("kernel", "blocks", output.quiet)](
                        int64_t done, int64_t total) { show(done, total, ""); };
  hooks.on_step = [last = train::StepRecord(), show = Progress(), &output](
                      const train::StepRecord& row, int64_t steps) mutable {
    if (!show) show = progress("training", "steps", output.quiet);
    if (!std::isnan(row.train_loss)) {  // with batches, only at the end of an epoch
      last.step = row.step;
      last.train_loss = row.train_loss;
    }
    if (!std::isnan(row.val_loss)) last.val_loss = row.val_loss;
    std::string text = fmt::format("step {}/{}, loss {:.2e}", row.step, steps, last.train_loss);
    if (last.step != row.step) text += fmt::format(" at {}", last.step);
    if (!std::isnan(last.val_loss)) text += fmt::format(", val {:.2e}", last.val_loss);
    show(row.step, at_most(steps), text);
  };
  hooks.on_point = [show = Progress(), shown = std::optional<study::LearnStage>(), &output](
                       study::LearnStage stage, const train::StepRecord& row,
                       int64_t points) mutable {
    const bool selection = stage == study::LearnStage::kSelection;
    if (shown != stage) {
      show =
          progress(selection ? "choosing a point" : "training on all rows", "points", output.quiet);
    }
    shown = stage;
    show(row.step, points,
         selection ? fmt::format("held-out loss {:.4g}", row.val_loss)
                   : fmt::format("loss {:.4g}", row.train_loss));
  };
  hooks.on_note = [](const std::string& text) { complain(text); };
  hooks.on_warning = warn;
  return hooks;
}

int run_train(TrainCommand& command) {
  run::Options& options = command.run;
  options.device = command.machine.apply();
  kernel::allow_tf32(options.tf32);
  options.resume = command.app->count("--resume") > 0;
  options.folder = command.resume.empty() ? command.out : command.resume;
  options.given = given_settings(*command.app);
  require_file(options.data.file, options.data.labels);
  show_reading(options.data.csv, command.output.quiet);
  options.data.is_pictures = study::holds_pictures(options.data.file);
  require_target(options.data);
  // Folders from before goals existed are fits.
  if (options.resume && !options.data.goal) options.data.goal = study::Goal::kFit;
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
  if (command.dry_run) {
    command.explain = true;
    const study::Decision decision = run::explain(options, make_hooks(command, interrupts));
    if (options.ranks->rank() == 0) command.output.write_json(study::to_json(decision));
    return 0;
  }
  const run::TrainedRun done = run::train(options, make_hooks(command, interrupts));
  const bool interrupted = done.result.outcome == train::Outcome::kInterrupted;
  if (options.ranks->rank() > 0) return interrupted ? kInterrupted : 0;
  command.output.text(summarize(done));
  command.output.write_json(run::to_json(done.record));
  if (interrupted) return kInterrupted;
  if (!done.result.diverged()) return 0;
  if (command.output.quiet) fmt::print(stderr, "cdt: {}\n", done.result.in_words());
  return kFailed;
}

/// Runs alone, as one of several ranks, or as the process that starts them.
int run_train_by_workers(TrainCommand& command) {
  if (const auto code = command.workers.run_all()) return *code;
  run::Options& options = command.run;
  options.threads = command.machine.threads;
  options.ranks = command.workers.join(command.machine);
  if (options.ranks->rank() > 0) {  // only the first rank prints
    command.output.quiet = true;
    command.output.json.clear();
  }
  try {
    return run_train(command);
  } catch (const std::exception& error) {
    Workers::tell(*options.ranks, error.what());
    throw;
  }
}

/// If the defaults of the goals differ, the help shows both, that of predict (the default goal)
/// first.
void show_defaults_by_goal(CLI::App& app) {
  const run::Options predict = study::usual_options(study::Goal::kPredict, "path");
  const run::Options fit = study::usual_options(study::Goal::kFit, "guarded");
  for (const run::Setting& setting : run::all_settings()) {
    CLI::Option* option = app.get_option_no_throw("--" + setting.name);
    const auto usual = setting.get(predict), other = setting.get(fit);
    if (option == nullptr || setting.name == "goal" || !usual || !other || usual == other) continue;
    option->default_str(fmt::format("{}; fit: {}", fmt::join(*usual, ","), fmt::join(*other, ",")));
  }
}

}  // namespace

std::function<int()> setup_train(CLI::App& app) {
  auto command = std::make_shared<TrainCommand>();
  command->app = &app;
  run::Options& options = command->run;
  add_data_options(app, options, /*required=*/true);
  add_array_options(app, options.data.file, options.data.labels);
  add_network_options(app, options);
  for (const run::Setting& setting : run::all_settings()) {
    static const std::set<std::string> kOfMachine{"file", "device", "threads"};
    const bool there = app.get_option_no_throw("--" + setting.name) != nullptr;
    if (!there && !kOfMachine.contains(setting.name)) add_setting(app, options, setting.name);
  }
  app.get_option("--goal")->default_str("predict");
  app.add_flag("--explain", command->explain,
               "say what the run does and why, before it does: each setting that was given or "
               "chosen, its value, and who chose it: user, goal, data or machine");
  CLI::Option* dry_run =
      app.add_flag("--dry-run", command->dry_run,
                   "say that and stop: the data are read, nothing is trained or written; --json "
                   "has it as JSON");
  app.add_option("--out", command->out, "folder of the run; default: run1, run2, …")
      ->type_name(kOutputFolder);
  app.add_flag("--overwrite", options.overwrite, "replace a run that --out holds already");
  app.add_option("--resume", command->resume,
                 "continue an interrupted run, or a finished one with more --steps; its own "
                 "settings hold")
      ->expected(0, 1)
      ->excludes(dry_run)
      ->type_name("[DIR]");
  command->machine.add_to(app);
  command->workers.add_to(app);
  command->output.kept = true;
  command->output.add_to(app);
  show_defaults_by_goal(app);
  add_help(app, {{OptionGroup::kData, "cdt train houses.csv --target price"},
                 {OptionGroup::kModel, "cdt train pets --arch alexnet --size 96"},
                 {OptionGroup::kTraining,
                  "cdt train houses.csv --target price --goal fit --method gd --lr 0.1"},
                 {OptionGroup::kControl,
                  "cdt train houses.csv --target price --goal fit --method cdt --p 0.01"},
                 {OptionGroup::kOutput, "cdt train --resume run1 --steps 5000"},
                 {OptionGroup::kMachine, "cdt train houses.csv --target price --device cuda"}});
  return [command] { return run_train_by_workers(*command); };
}

}  // namespace cdt::cli
