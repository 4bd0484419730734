// cdt compare: goals, methods × learning rates × architectures × seeds on the user's table.
#include <cdt/core/error.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/scope.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "cli/help.h"
#include "cli/study_options.h"
#include "cli/sweep.h"

namespace cdt::cli {
namespace {

struct CompareCommand {
  run::Options run;  ///< data and network, for the plan
  experiment::Plan plan;
  SweepOptions sweep;
  std::vector<std::string> archs{"256x256"};
  std::vector<std::string> goals{"predict", "fit"};
  const CLI::App* app = nullptr;
};

/// Selects which methods run at the rates of --lrs, and which once at their own rate: guarded
/// methods always run at their own, and so do methods with a fixed default rate, unless both
/// --methods and --lrs are given.
void choose_rates(const CompareCommand& options, experiment::Plan& plan) {
  const bool asked = options.app->count("--methods") > 0 && options.app->count("--lrs") > 0;
  std::vector<std::string> at_rates;
  for (const std::string& name : plan.methods) {
    const train::Method method = experiment::training_method(name);
    const bool at_rate = asked || method->by_curvature;
    if (at_rate) at_rates.push_back(name);
    if (method->guarded || !at_rate) plan.own_rate.push_back(name);
  }
  plan.methods = at_rates;
}

/// Selects the runs to compare: fits, by method and rate, and predictions.
void choose_runs(CompareCommand& options) {
  const CLI::App& app = *options.app;
  experiment::Plan& plan = options.plan;
  const bool methods_given = app.count("--methods") > 0;
  if ((methods_given || app.count("--lrs") > 0) && app.count("--goals") == 0) {
    options.goals = {"fit"};
    complain(fmt::format(
        "{} is for the goal fit, which alone is compared (--goals predict,fit adds networks for "
        "new rows)",
        methods_given ? "--methods" : "--lrs"));
  }
  const auto among = [&](study::Goal goal) {
    return data::contains(options.goals, study::to_string(goal));
  };
  if (among(study::Goal::kFit)) {
    choose_rates(options, plan);
  } else {
    for (const char* flag : {"--methods", "--lrs", "--steps", "--schedule", "--decay", "--p", "--q",
                             "--validate-every"}) {
      CDT_REQUIRE(app.count(flag) == 0, flag,
                  " belongs to the goal fit, which --goals predict leaves out");
    }
    plan.methods.clear();
  }
  if (among(study::Goal::kPredict)) {
    plan.own_rate.insert(plan.own_rate.end(), {experiment::kPredict, experiment::kPredictAdam});
  }
}

/// Rejects data flags that no goal uses, and control flags that no method uses.
void require_readers(const CompareCommand& options) {
  const experiment::Plan& plan = options.plan;
  run::Options as_run;
  as_run.data = plan.data;
  as_run.training.schedule = plan.schedule;
  for (const std::string& name : given_settings(*options.app)) {
    std::optional<study::Unread> unread;
    bool read = false;
    const auto look = [&](study::Goal goal, const train::Method& method) {
      as_run.data.goal = goal;
      as_run.training.method = method;
      const auto found = study::find_unread(as_run, {name});
      read = read || !found;
      if (found) unread = found;
    };
    for (const auto* methods : {&plan.methods, &plan.own_rate}) {
      for (const std::string& method : *methods) {
        const train::Method known = experiment::training_method(method);
        const bool predicts = experiment::predicts(method);
        // Guarded methods adapt their rate here.
        const bool own_rate = name == "schedule" || name == "decay";
        if (own_rate && known->guarded && !predicts) continue;
        look(predicts ? study::Goal::kPredict : study::Goal::kFit, known);
      }
    }
    CDT_REQUIRE(read || !unread, "--", name, ": no method of this comparison reads it (",
                unread->reason, ")");
  }
}

/// "500x500x500": the widths of the hidden layers.
experiment::Architecture parse_architecture(const std::string& text) {
  experiment::Architecture architecture{text, {}};
  for (size_t first = 0; first <= text.size();) {
    const size_t last = std::min(text.find('x', first), text.size());
    const std::string width = text.substr(first, last - first);
    const bool number = !width.empty() && width.size() < 9 &&
                        width.find_first_not_of("0123456789") == std::string::npos;
    CDT_REQUIRE(number && std::stol(width) > 0,
                "--archs: expected widths of hidden layers with an x between, as 500x500, got '",
                text, "'");
    architecture.hidden.push_back(std::stol(width));
    first = last + 1;
  }
  return architecture;
}

int run_compare(CompareCommand& options) {
  experiment::Plan& plan = options.plan;
  plan.data = options.run.data;
  plan.network = options.run.network;
  CDT_REQUIRE(options.app->count("--sample-weights") == 0,
              "--sample-weights: a comparison takes all samples alike; cdt train has weights");
  if (plan.schedule.kind == train::Schedule::Kind::kStep && options.app->count("--decay") == 0) {
    plan.schedule.decay = 0.5;
  }
  plan.kind = "compare";
  plan.errors = true;
  plan.title =
      fmt::format("Comparison on {}", std::filesystem::path(plan.data.file).filename().string());
  for (const std::string& text : options.archs) {
    plan.architectures.push_back(parse_architecture(text));
  }
  choose_runs(options);
  require_readers(options);
  plan.samples.architecture = plan.architectures.front().name;
  plan.samples.lr = plan.lrs[plan.lrs.size() / 2];
  for (const CLI::Option* option : options.app->get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    static const std::set<std::string> kNoSettings{"help", "help-all", "jobs",   "together", "out",
                                                   "json", "quiet",    "config", "csv-safe"};
    if (kNoSettings.contains(name)) continue;
    const bool given = option->count() > 0;
    std::string value =
        given ? fmt::format("{}", fmt::join(option->results(), ", ")) : option->get_default_str();
    if (name == "goals") value = fmt::format("{}", fmt::join(options.goals, ", "));
    plan.settings.push_back({name, value, given ? "given" : "ours", ""});
  }
  const data::Table table = study::read_table(plan.data);
  if (options.app->count("--loss") == 0 && study::is_class(table, plan.data.targets)) {
    plan.loss = loss::cross_entropy();
    const std::string note = study::note_on_target(table, plan.data.targets, /*classes=*/true);
    if (!note.empty()) complain(note);
    for (report::Setting& setting : plan.settings) {
      if (setting.name == "loss") setting.value = to_string(plan.loss);
    }
  }
  return run_sweep(plan, table, {}, options.sweep);
}

}  // namespace

std::function<int()> setup_compare(CLI::App& app) {
  auto options = std::make_shared<CompareCommand>();
  options->app = &app;
  experiment::Plan& plan = options->plan;
  plan.lrs = {1, 0.1, 0.01};
  plan.methods = {"gd", "cdt", "guarded", "adam"};
  plan.seeds = 3;
  plan.steps = 300;
  add_table_options(app, options->run, /*required=*/true);
  app.get_option("--target")->description("columns to learn, separated by commas");
  // Hidden in the help but accepted, because an option file shared with cdt train may contain it.
  add_setting(app, options->run, "sample-weights")->group("");
  app.add_option("--archs", options->archs,
                 "hidden layers, with an x between widths and commas between networks: "
                 "1500,500x500")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NxN")
      ->default_str("256x256");
  add_network_options(app, options->run, /*hidden_layers=*/false);
  app.add_option("--goals", options->goals,
                 "predict: networks for new rows as cdt train makes them, by a path (predict) and "
                 "by Adam (predict-adam), which learn from the training rows alone; fit: --methods "
                 "at --lrs. Default: both, or fit alone if --methods or --lrs is given")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(among({"predict", "fit"}))
      ->type_name("GOAL")
      ->default_str("predict,fit");
  add_sweep_axes(app, plan);
  app.get_option("--lrs")->default_str("1,0.1,0.01");
  app.get_option("--methods")->default_str("gd,cdt,guarded,adam");
  app.get_option("--seeds")->capture_default_str();
  app.get_option("--steps")->capture_default_str();
  add_named(app, "--loss", plan.loss, loss::parse, {"sse", "half-mse", "mse", "cross-entropy"},
            "mse, half-mse, sse; cross-entropy: the target is a class, text or whole numbers. "
            "Default: cross-entropy if the target is text, or has two values");
  add_named(app, "--schedule", plan.schedule.kind, train::parse_schedule,
            {"constant", "inverse", "exponential", "cosine", "step"},
            "learning rate schedule: constant, inverse α/(1 + decay·k), exponential, cosine, step; "
            "not for guarded, which adapts its rate");
  app.add_option("--decay", plan.schedule.decay, "decay rate of the schedule; 0.5 for step")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--p", plan.p, "weight on label augments")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--q", plan.q, "weight on errors")->check(positive())->capture_default_str();
  app.add_option("--validate-every", plan.validate_every, "steps between points of the curves")
      ->check(positive())
      ->capture_default_str();
  add_memory(app, plan.memory_bytes, "for each kernel's computation, in MB");
  options->sweep.add_to(app, "compare");
  add_help(app, {{OptionGroup::kData, "cdt compare houses.csv --target price --out cmp"},
                 {OptionGroup::kModel, "cdt compare h.csv --target price --archs 256x256,1000"},
                 {OptionGroup::kTraining, "cdt compare h.csv --target price --lrs 1,0.1 --seeds 5"},
                 {OptionGroup::kControl, "cdt compare h.csv --target price --goals fit --p 0.01"},
                 {OptionGroup::kOutput, "cdt compare h.csv --target price --json results.json"},
                 {OptionGroup::kMachine, "cdt compare h.csv --target price --device cuda"}});
  app.footer(
      "guarded also runs once at the rate that it finds itself. adam and lbfgs run at their usual "
      "rates, 0.001 and 1, unless --methods and --lrs are both given.\n"
      "Runs that --out holds already are not repeated: a killed sweep continues, and more --lrs, "
      "--methods or --seeds may be added later.");
  return [options] { return run_compare(*options); };
}

}  // namespace cdt::cli
