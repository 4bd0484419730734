#include "cli/sweep.h"

#include <cdt/core/error.h>
#include <cdt/core/machine/speed.h>
#include <cdt/core/text/wrap.h>
#include <cdt/experiment/parts/groups.h>
#include <cdt/experiment/results_file.h>
#include <cdt/experiment/tables.h>
#include <cdt/train/options.h>
#include <fmt/format.h>

namespace cdt::cli {

void SweepOptions::add_to(CLI::App& app, const std::string& folder) {
  out = folder;
  app.add_option("--jobs", jobs, "runs at a time, one thread each; default: all cores, 1 on a GPU")
      ->check(positive());
  app.add_option("--together", together,
                 fmt::format("runs of one architecture that are trained as one, by gd, gd-matched, "
                             "gd-best or cdt; 1: each alone; default: 1, on a GPU up to {}. The "
                             "same bits come from the same runs together",
                             experiment::kMostTogether))
      ->check(positive());
  app.add_option("--out", out, "folder of the results; runs that it holds are not repeated")
      ->capture_default_str()
      ->type_name(kOutputFolder);
  app.add_option("--device", machine.device, "cpu or cuda")
      ->check(among({"cpu", "cuda"}))
      ->capture_default_str();
  add_csv_safe(app, csv_safe);
  output.kept = true;
  output.add_to(app);
}

void add_sweep_axes(CLI::App& app, experiment::Plan& plan) {
  app.add_option("--lrs", plan.lrs, "learning rates, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive())
      ->type_name("LR");
  std::vector<std::string> methods;
  for (const train::Method& method : train::Method::all()) {
    if (!method->path) methods.push_back(method.name());  // paths have no rate
  }
  methods.emplace_back(experiment::kGdBest);
  app.add_option(
         "--methods", plan.methods,
         fmt::format("of {} (gd at 0.9 of its largest stable rate)", fmt::join(methods, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(among(methods))
      ->type_name("METHOD");
  app.add_option("--seeds", plan.seeds, "initializations, each with its own split: 1 to N")
      ->check(positive())
      ->type_name("N");
  app.add_option("--steps", plan.steps, "steps of each run")->check(positive())->type_name("N");
}

int run_sweep(const experiment::Plan& plan, const data::Table& table,
              const paper::Published& published, const SweepOptions& options) {
  MachineOptions machine = options.machine;
  machine.threads = 1;
  const std::filesystem::path folder(options.out);
  int64_t total = 0;
  experiment::RunnerOptions how;
  how.device = machine.apply();
  how.jobs = options.jobs;
  how.together = options.together;
  how.stop = InterruptScope::requested;
  how.on_start = [&](int64_t runs, int64_t known, int64_t jobs) {
    total = runs;
    options.output.text(wrap(
        fmt::format("{}: {} runs, {} there already, {} at a time\n", plan.title, runs, known, jobs),
        2));
  };
  if (!options.output.quiet) how.on_warning = warn;
  how.progress = progress("sweep", "runs", options.output.quiet);
  const experiment::Sweep sweep = [&] {
    const InterruptScope interrupts;
    return experiment::run(plan, table, folder, how);
  }();
  if (!sweep.complete) {
    complain(fmt::format("interrupted with {} of {} runs done; the same command continues",
                         sweep.runs.size(), total));
  }
  auto rows = experiment::collect_rows(plan, sweep.runs);
  if (rows.empty()) {
    CDT_REQUIRE(!sweep.complete, plan.title, ": there was nothing to run");
    return kInterrupted;
  }
  paper::add_published(published, rows);
  experiment::Results results{
      plan, sweep, rows, {}, experiment::lowest_errors(rows), options.csv_safe};
  results.claims = paper::check_claims(plan, published, rows, sweep.runs);
  if (!published.note.empty()) results.summary.push_back(published.note);
  const auto start = Clock::now();
  const std::string json = experiment::write_results(folder, results);
  options.output.text(experiment::to_text(plan.title, rows, results.claims));
  options.output.text(
      wrap(fmt::format("\n{} runs, {} of them now in {:.0f} s; report in {:.2f} s\n{}: {}"
                       "results.json, results.csv, results.md, figures.json, runs/\n",
                       sweep.runs.size(), sweep.made, sweep.wall_seconds, seconds_since(start),
                       folder.string(), report::has_charts() ? "report.html, " : ""),
           2));
  if (!report::has_charts() && !options.output.quiet) {
    complain("there is no report.html: this program was built without Chart.js (libjs-chart.js)");
  }
  options.output.write_json(json);
  return sweep.complete ? 0 : kInterrupted;
}

}  // namespace cdt::cli
