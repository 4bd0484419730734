#include <cdt/core/io/json_fields.h>
#include <cdt/core/text/names.h>
#include <cdt/core/text/wrap.h>
#include <cdt/study/decision.h>
#include <cdt/study/parts/cost.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/plan.h>
#include <cdt/study/settings.h>
#include <cdt/train/batches.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>

namespace cdt::study {
namespace {

using By = Choice::By;
using train::Form, train::Method;

// Options of an optimizer with goal predict: a fair baseline by early stopping.
constexpr int64_t kMostEpochs = 500;
constexpr int64_t kEpochPatience = 20;
constexpr int64_t kOptimizerBatch = 32;
/// A guarded run ends after this many steps without a gain.
constexpr int64_t kPlateau = 15;

constexpr Names<By, 4> kBys{
    {{"user", By::kUser}, {"goal", By::kGoal}, {"data", By::kData}, {"machine", By::kMachine}}};

struct Reason {
  By by;
  std::string why;
};
/// Reasons for defaults that differ from those of a table that is fitted.
const std::map<std::string, Reason> kReasons{
    {"delimiter", {By::kData, "it stands in the first line"}},
    {"missing-target", {By::kGoal, "a row without a target teaches nothing"}},
    {"train-fraction", {By::kGoal, "rows held out in turn choose the point, then all train"}},
    {"categories", {By::kGoal, "a feature for each category"}},
    {"max-levels", {By::kGoal, "rare categories share a feature"}},
    {"missing-numbers", {By::kGoal, "the median stands for it, and a feature says so"}},
    {"unknown", {By::kGoal, "new rows may have categories that training has not seen"}},
    {"quantiles", {By::kGoal, "numbers also piece by piece, for curves in one column"}},
    {"scale", {By::kGoal, "mean 0 and standard deviation 1"}},
    {"clip", {By::kGoal, "an outlier moves a feature so far and no farther"}},
    {"target-scale", {By::kGoal, "mean 0 and standard deviation 1"}},
    {"target-transform", {By::kGoal, "skewed targets above zero are learned as logarithms"}},
    {"fit", {By::kGoal, "scales are those of all rows but test rows"}},
    {"arch", {By::kData, "usual for pictures"}},
    {"sigma-w", {By::kGoal, "small weights: kernels of large ones learn no features"}},
    {"sigma-b", {By::kGoal, "no biases at the start"}},
    {"method",
     {By::kGoal, "a path of falling decay, guarded; held-out rows choose its best point"}},
    {"loss", {By::kData, "the target's values are classes"}},
    {"batch", {By::kGoal, "usual for an optimizer"}},
    {"reshuffle", {By::kGoal, "usual for an optimizer"}},
    {"steps", {By::kGoal, "points of the path, or epochs of an optimizer, at most"}},
    {"stop-loss", {By::kGoal, "held-out rows end the training, not the training loss"}},
    {"patience", {By::kGoal, "points, or epochs, without a lower held-out loss end it"}},
};

/// Inserts a choice in the order of the settings, replacing one of the same setting.
void put(Decision& decision, Choice choice) {
  const auto place = [](const std::string& name) {
    const auto& all = all_settings();
    return std::ranges::find(all, name, &Setting::name) - all.begin();
  };
  std::vector<Choice>& choices = decision.choices;
  std::erase_if(choices, [&](const Choice& each) { return each.setting == choice.setting; });
  const auto next = std::ranges::upper_bound(
      choices, place(choice.setting), {}, [&](const Choice& each) { return place(each.setting); });
  choices.insert(next, std::move(choice));
}

void put_number(Decision& decision, const std::string& name, int64_t value, By by,
                const std::string& why) {
  put(decision, {name, std::to_string(value), by, why});
}

/// Whether a setting was given: values other than the default count without being named.
bool is_given(const RunOptions& given, const std::string& name) {
  if (name == "goal") return given.data.goal.has_value();
  RunOptions plain;
  plain.data.goal = given.data.goal;
  plain.data.is_pictures = given.data.is_pictures;
  const Setting& setting = find_setting(name);
  return given.given.contains(name) || setting.get(given) != setting.get(plain);
}

/// Lists the goal, given settings, and those that differ from the defaults of a table that is
/// fitted.
void list_choices(const RunOptions& given, Decision& decision) {
  const bool pictures = decision.options.data.is_pictures;
  const auto chosen = [&](const std::string& name) -> Reason {
    if (name == "goal") {
      return {By::kData, pictures ? "pictures are fitted" : "tables are learned for new rows"};
    }
    if (decision.options.data.keeps_units && name.starts_with("target-")) {
      return Reason{By::kGoal, "the loss keeps targets in their units"};
    }
    const auto found = kReasons.find(name);
    return found == kReasons.end() ? Reason{By::kGoal, "usual for it"}
           : pictures              ? Reason{By::kData, found->second.why}
                                   : found->second;
  };
  for (const Setting& setting : all_settings()) {
    const auto value = setting.get(decision.options);
    const bool by_user = is_given(given, setting.name) && value == setting.get(given);
    if (!by_user && setting.name != "goal" && value == setting.get(RunOptions())) continue;
    if (!value && setting.name != "train-fraction") continue;
    const std::string text = !value           ? "all"
                             : value->empty() ? "on"
                                              : fmt::format("{}", fmt::join(*value, ","));
    const auto [by, why] = by_user ? Reason{By::kUser, "given"} : chosen(setting.name);
    put(decision, {setting.name, text, by, why});
  }
}

/// Chooses the default network for pictures, unless one was given.
void choose_network(RunOptions& options) {
  if (!options.data.is_pictures || is_decided(options, "arch")) return;
  const bool layers = is_decided(options, "hidden");
  const std::vector<int64_t> channels = options.network.hidden;
  options.network.choose(study::kUsualPictureNetwork);
  if (layers) options.network.hidden = channels;
}

/// With goal predict the target's values determine its type: text, and numbers with two values, are
/// classes.
void choose_loss(const Facts& facts, Decision& decision) {
  RunOptions& options = decision.options;
  if (is_decided(options, "loss")) return;
  const bool classes = options.data.goal == study::Goal::kPredict && facts.classes;
  if (classes) options.training.loss = loss::cross_entropy();
  const std::string& note = classes ? facts.as_classes : facts.as_number;
  if (!note.empty()) decision.notes.push_back(note);
}

/// Chooses the solver by study::usual_plan if it is open: batches if one process learns a table on
/// a CPU and a kernel of all rows would take longer, by counted operations.
void choose_form(const study::Problem& problem, Decision& decision) {
  RunOptions& options = decision.options;
  train::TrainOptions& training = options.training;
  if (!training.method->path || !training.form->open || options.ranks->several()) return;
  const study::PlanSizes sizes = study::plan_sizes(problem, training);
  const study::Plan plan = study::usual_plan(sizes, training, options.ensemble);
  if (!plan.form->batches) {
    const train::FormChoice choice = train::choose_form("auto", sizes.form);
    put(decision, {"form", plan.form.name(), By::kData, choice.why});
    return;
  }
  const bool patient = is_decided(options, "patience");
  const int64_t rows = sizes.form.samples;
  training.form = "batch";
  training.batch = study::batch_of_plan(sizes, training);
  if (!patient) training.patience = study::kBatchPatience;
  const int64_t batch = train::batch_rows(training.batch, rows, sizes.form.per_sample);
  decision.training = training;
  decision.notes.push_back(
      c10::str(rows, " rows: it learns by batches of ", batch,
               ", which takes less time than one kernel (--form dual) and errs no more"));
  put(decision,
      {"form", "batch", By::kData,
       fmt::format("{} rows: less time than one kernel of all, and no more error", rows)});
  put_number(decision, "batch", batch, By::kData, "rows of one kernel");
  if (!patient) {
    put_number(decision, "patience", training.patience, By::kData, "epochs of batches are dear");
  }
}

/// Sets the options of goal predict.
void choose_walks(const study::Problem& problem, Decision& decision) {
  const RunOptions& options = decision.options;
  study::LearnOptions& wanted = decision.learn.emplace();
  wanted.training = options.training;
  wanted.network = options.network;
  if (!is_decided(options, "activation")) {
    wanted.activations = {nn::Activation::kRelu, nn::Activation::kTanh};
    put(decision, {"activation", "relu,tanh", By::kGoal, "networks take turns"});
  }
  if (options.ensemble) {
    wanted.members = *options.ensemble;
  } else {
    const study::Plan plan =
        study::usual_plan(study::plan_sizes(problem, options.training), options.training);
    const bool path = options.training.method->path;
    wanted.members = plan.members;
    if (path && !is_decided(options, "steps")) wanted.points = plan.points;
    put_number(decision, "ensemble", wanted.members, By::kData,
               path
                   ? "on all rows, in about ten seconds: more or fewer by where the best point lies"
                   : "four where that takes seconds, else as many as about ten seconds allow");
  }
  wanted.folds = options.folds;
  if (options.folds == 0 && wanted.members > 1 && !problem.fixed_split) {
    put_number(decision, "folds", std::max(wanted.members, study::kLeastFolds), By::kGoal,
               "parts of the rows, each held out in turn");
  }
  wanted.keep_threads = options.threads > 0;
  wanted.refit = options.refit;
  wanted.intervals = options.intervals && !options.training.loss->classes();
}

/// For a fit: chooses samples per step, or the solver for all of them.
void choose_batch(const study::Problem& problem, Decision& decision) {
  train::TrainOptions& training = decision.training;
  training.batch = study::usual_batch(problem, training);
  if (training.form->batches || study::kernel_fits(problem, training)) {
    if (training.batch > 0) {
      put_number(decision, "batch", training.batch, By::kData, "default of --form batch");
    }
    return;
  }
  const int64_t rows = problem.data.x.size(0);
  if (!training.form->open) {
    decision.notes.push_back(
        fmt::format("form {}: each step is taken from all {} rows (--batch decides)",
                    training.form.name(), rows));
    return;
  }
  const std::string why =
      fmt::format("a kernel of {} rows would take long at each step", problem.data.y.numel());
  if (study::takes_form(problem, training)) {
    training.most_modes = 0;
    decision.notes.push_back(fmt::format(
        "{}; steps are taken from all {} rows, by a form (--batch decides)", why, rows));
  } else {
    decision.notes.push_back(fmt::format("{}; training by batches of {} samples (--batch decides)",
                                         why, training.batch));
  }
  put_number(decision, "batch", training.batch, By::kData, why);
}

/// A guarded run that chooses its own rate takes the longest possible steps: if a dozen of them
/// gain nothing, no further gain is possible.
void choose_plateau(const study::Problem& problem, Decision& decision) {
  train::TrainOptions& training = decision.training;
  if (is_decided(decision.options, "plateau") || !training.method->guarded ||
      training.learning_rate || !training.loss->quadratic()) {
    return;
  }
  const int64_t rows = problem.data.x.size(0), batch = training.batch;
  training.plateau = kPlateau * (batch > 0 ? (rows + batch - 1) / batch : 1);
  put_number(decision, "plateau", training.plateau, By::kGoal,
             "guarded steps are as long as can be: where these gain nothing, the rest is out of "
             "reach");
}

/// Lists what the method chooses during training.
void list_method(Decision& decision) {
  const train::TrainOptions& training = decision.training;
  const Method& method = training.method;
  if (!training.learning_rate && !method->path) {
    const bool found = method->by_curvature;
    put(decision, {"lr", found ? "found" : fmt::format("{}", method->start_rate),
                   found ? By::kData : By::kGoal,
                   found ? "from the kernel's largest eigenvalue"
                         : fmt::format("usual for {}", method.name())});
  }
  if (method->controlled && !training.relinearize) {
    put(decision, {"relinearize", method->guarded ? "guard" : "never", By::kGoal,
                   method->guarded ? "guarded computes the kernel anew where a step disappoints"
                                   : "cdt keeps the first kernel"});
  }
  if (const double smoothing = train::smoothing_of(training);
      smoothing > 0 && !training.smoothing) {
    put(decision, {"smoothing", fmt::format("{}", smoothing), By::kGoal,
                   fmt::format("{} steers towards labels that can be reached", method.name())});
  }
}

void require_tunable(const Decision& decision, const std::string& no_analysis) {
  const RunOptions& options = decision.options;
  if (!options.tune) return;
  const train::TrainOptions& training = decision.training;
  CDT_REQUIRE(options.data.goal != study::Goal::kPredict,
              "tune forecasts how well training rows are fitted; it belongs to the goal fit");
  CDT_REQUIRE(options.analysis, "tune chooses by the analysis, which is switched off");
  CDT_REQUIRE(training.loss->quadratic(), "tune forecasts quadratic losses only, got ",
              to_string(training.loss));
  CDT_REQUIRE(training.method->follows_forecast,
              "tune forecasts gradient descent and CDT, so it has no advice for ",
              training.method.name(), "; it is for gd, cdt and guarded");
  CDT_REQUIRE(no_analysis.empty(), "tune needs the analysis of all samples at once: ", no_analysis);
}

}  // namespace

std::string to_string(Choice::By by) { return name_of(kBys, by); }

void Choice::fields(Fields& f) {
  f.need("setting", setting);
  f.need("value", value);
  f.spelled(
      "by", by, [](By each) { return to_string(each); },
      [](const std::string& name) { return parse_name(kBys, name, "who chose a setting"); });
  f.need("why", why);
}

Facts facts_of(const std::string& file) {
  Facts facts;
  facts.pictures = study::holds_pictures(file);
  return facts;
}

Facts facts_of(const data::Table& table, const study::DataOptions& data) {
  Facts facts;
  facts.pictures = data.is_pictures;
  if (table.pictures) return facts;
  facts.delimiter = table.delimiter;
  facts.classes = study::is_class(table, data.targets);
  facts.as_classes = study::note_on_target(table, data.targets, /*classes=*/true);
  facts.as_number = study::note_on_target(table, data.targets, /*classes=*/false);
  return facts;
}

Decision decide(const RunOptions& given, const Facts& facts) {
  Decision decision;
  RunOptions& options = decision.options;
  options = given;
  options.data.is_pictures = facts.pictures;
  if (!options.data.goal) {
    options.data.goal = facts.pictures ? study::Goal::kFit : study::Goal::kPredict;
  }
  choose_network(options);
  options = resolved(std::move(options));
  choose_loss(facts, decision);
  options.data.learn_by(*options.training.loss);
  if (facts.delimiter) options.data.csv.delimiter = facts.delimiter;
  decision.training = options.training;
  list_choices(given, decision);
  return decision;
}

Decision complete(Decision decision, const study::Problem& problem) {
  const RunOptions& options = decision.options;
  const bool predicts = options.data.goal == study::Goal::kPredict;
  choose_form(problem, decision);
  if (predicts) {
    choose_walks(problem, decision);
  } else {
    if (!is_decided(options, "batch") && !options.ranks->several()) choose_batch(problem, decision);
    CDT_REQUIRE(options.resume || !is_decided(options, "reshuffle") || decision.training.batch > 0,
                "reshuffle: it would do nothing here: every step takes all rows, and it needs "
                "batches of them (--batch)");
    choose_plateau(problem, decision);
  }
  const std::string reason = predicts ? "" : study::reason_to_skip(problem, decision.training);
  require_tunable(decision, reason);
  if (!predicts && options.analysis) {
    decision.no_analysis = options.ranks->several() ? "workers share the rows" : reason;
  }
  list_method(decision);
  if (options.threads == 0) {
    put_number(decision, "threads", torch::get_num_threads(), By::kMachine, "its cores");
  }
  return decision;
}

void follow(const study::Tuning& advice, Decision& decision) {
  const RunOptions& options = decision.options;
  train::TrainOptions& training = decision.training;
  const auto take = [&](const std::string& name, double value) {
    put(decision, {name, fmt::format("{:.4g}", value), By::kData, "the best of the forecast"});
  };
  if (!is_decided(options, "lr")) {
    training.learning_rate = advice.learning_rate;
    take("lr", advice.learning_rate);
  }
  if (!is_decided(options, "p") && advice.p) {
    training.p = *advice.p;
    take("p", *advice.p);
  }
  if (!is_decided(options, "steps")) {
    training.steps = advice.steps;
    take("steps", static_cast<double>(advice.steps));
  }
}

RunOptions usual_options(study::Goal goal, const Method& method, const Form& form) {
  RunOptions usual;
  usual.data.goal = goal;
  if (goal == study::Goal::kFit) return usual;
  train::TrainOptions& training = usual.training;
  training.stop_loss = 0;
  const bool path = method->solves;
  training.method = "path";
  training.steps = path ? study::kMostPoints : kMostEpochs;
  training.patience = !path           ? kEpochPatience
                      : form->batches ? study::kBatchPatience
                                      : study::kPathPatience;
  if (path) {
    usual.network.sigma_w = study::kPathSigma;
    usual.network.sigma_b = 0;
  } else {
    training.batch = kOptimizerBatch;
    training.reshuffle = true;
  }
  return usual;
}

RunOptions resolved(RunOptions options) {
  if (options.data.goal != study::Goal::kPredict) return options;
  RunOptions plain;
  plain.data.goal = options.data.goal;
  Method& method = options.training.method;
  if (method == RunOptions().training.method) method = "path";
  const RunOptions usual = usual_options(study::Goal::kPredict, method, options.training.form);
  for (const Setting& setting : all_settings()) {
    if (options.given.contains(setting.name) || setting.name == "method") continue;
    const auto value = setting.get(usual), before = setting.get(plain);
    // Data options with goal-dependent defaults stay undecided: classes have no scale.
    if (value && value != before && setting.get(options) == before) setting.set(options, *value);
  }
  return options;
}

bool has_analysis(const Decision& decision) {
  const RunOptions& options = decision.options;
  return options.data.goal == study::Goal::kFit && options.analysis && decision.no_analysis.empty();
}

std::string to_text(const Decision& decision) {
  constexpr size_t kWidestValue = 24;
  size_t name = 7, value = 5;
  for (const Choice& each : decision.choices) {
    name = std::max(name, each.setting.size());
    value = std::max(value, std::min(each.value.size(), kWidestValue));
  }
  std::string text =
      fmt::format("{:{}}  {:{}}  {:7}  {}\n", "setting", name, "value", value, "by", "why");
  for (const Choice& each : decision.choices) {
    text += wrap(fmt::format("{:{}}  {:{}}  {:7}  {}\n", each.setting, name, each.value, value,
                             to_string(each.by), each.why),
                 name + value + 13);
  }
  if (!decision.no_analysis.empty()) {
    text += fmt::format("No pre-flight: {}.\n", decision.no_analysis);
  }
  return text + "Other settings have their defaults (cdt train --help-all).\n";
}

std::string to_json(const Decision& decision) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  JsonWriter writer(json);
  Decision shown = decision;
  writer("choices", shown.choices);
  writer("notes", shown.notes);
  return json.dump(2);
}

}  // namespace cdt::study
