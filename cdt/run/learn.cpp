#include <cdt/core/error.h>
#include <cdt/data/csv/column_builder.h>
#include <cdt/data/encode/identifiers.h>
#include <cdt/data/rows/rows.h>
#include <cdt/run/learn.h>
#include <cdt/run/parts/scope.h>
#include <cdt/run/settings.h>
#include <cdt/study/parts/order.h>
#include <cdt/study/parts/plan.h>
#include <cdt/train/batches.h>

namespace cdt::run {
namespace {

/// The table in the order of its content, and with it what the order that it came in has said:
/// which columns are identifiers.
data::Table in_order(const data::Table& table, Options& options, std::vector<std::string>& notes) {
  data::Table ordered = data::take_rows(table, data::rows_by_content(table));
  const study::DataOptions& wanted = options.data;
  for (data::Column& column : ordered.columns) {
    column.dates = wanted.csv.dates;
    const bool open = !column.warning.empty() && wanted.csv.decimal != 0;
    if (open) data::understand(column, wanted.csv.decimal);
  }
  std::vector<std::string>& keep = options.data.keep;
  for (const data::Column& column : table.columns) {
    const bool feature = !data::contains(wanted.targets, column.name) &&
                         column.name != wanted.sample_weights && column.name != wanted.group;
    if (!feature || data::contains(keep, column.name)) continue;
    const bool now = data::identifier_reason(ordered, ordered.at(column.name)).has_value();
    data::Column answered;  // dates in an order that somebody has said are none
    const bool asked = wanted.csv.dates && column.type == data::ColumnType::kText;
    if (asked) answered = column;
    answered.dates = wanted.csv.dates;
    const auto reason = data::identifier_reason(table, asked ? answered : column);
    if (reason) {
      std::erase_if(ordered.columns, [&](const auto& each) { return each.name == column.name; });
      notes.push_back(c10::str(column.name, ": left out, an identifier: ", *reason));
    } else if (now) {
      keep.push_back(column.name);  // by chance sorting has made it count
    }
  }
  return ordered;
}

}  // namespace

std::string decide_loss(Options& options, const data::Table& table) {
  if (is_decided(options, "loss") || table.pictures) return "";
  const bool predicts = options.data.goal == study::Goal::kPredict;
  const bool classes = predicts && study::is_class(table, options.data.targets);
  if (classes) options.training.loss = loss::cross_entropy();
  return study::note_on_target(table, options.data.targets, classes);
}

std::string decide_form(Options& options, const study::Problem& problem) {
  train::TrainOptions& training = options.training;
  if (training.method != train::Method::kPath || training.form != train::Form::kAuto ||
      options.ranks->several()) {
    return "";
  }
  const study::PlanSizes sizes = study::plan_sizes(problem, training);
  const study::Plan plan = study::usual_plan(sizes, training, options.ensemble);
  if (plan.form != train::Form::kBatch) return "";
  const bool patient = is_decided(options, "patience");
  training.form = train::Form::kBatch;
  training.batch = study::batch_of_plan(sizes, training);
  if (!patient) training.patience = study::kBatchPatience;
  return c10::str(sizes.form.samples, " rows: it learns by batches of ",
                  train::batch_rows(training.batch, sizes.form.samples, sizes.form.per_sample),
                  ", which takes less time than one kernel (--form dual) and errs no more");
}

study::LearnOptions learn_options(const Options& options, const study::Problem& problem) {
  study::LearnOptions wanted;
  wanted.training = options.training;
  wanted.network = options.network;
  if (!is_decided(options, "activation")) {
    wanted.activations = {nn::Activation::kRelu, nn::Activation::kTanh};
  }
  wanted.members = options.ensemble.value_or(study::usual_members(problem, options.training));
  wanted.folds = options.folds;
  wanted.keep_threads = options.threads > 0;
  wanted.refit = options.refit;
  wanted.intervals = options.intervals && !options.training.loss->classes();
  return wanted;
}

LearnedTable learn(const data::Table& table, const Options& given, const study::LearnHooks& hooks) {
  CDT_REQUIRE(given.data.goal != study::Goal::kFit,
              "learning a table is for the goal predict, but came fit");
  Options options = given;
  options.data.goal = study::Goal::kPredict;
  options = resolved(std::move(options));
  require_read(options);
  LearnedTable found;
  const data::Table ordered = in_order(table, options, found.notes);
  if (const std::string note = decide_loss(options, ordered); !note.empty()) {
    found.notes.push_back(note);
  }
  options.data.classes = options.training.loss->classes();
  const study::Problem problem = study::make_problem(ordered, options.data, options.network,
                                                     options.training.seed, options.device);
  found.notes.insert(found.notes.end(), problem.notes.begin(), problem.notes.end());
  if (const std::string note = decide_form(options, problem); !note.empty()) {
    found.notes.push_back(note);
  }
  const study::LearnOptions wanted = learn_options(options, problem);
  study::Learned learned = study::Learner(problem, wanted).run(hooks);
  found.result = learned.result;
  found.members = wanted.refit ? wanted.members : 0;
  if (learned.result.outcome == train::Outcome::kInterrupted) return found;
  for (std::string& each : study::cautions(problem, wanted, learned)) {
    found.notes.push_back(std::move(each));
  }
  if (std::string line = study::add_line(problem, wanted.training.loss, learned); !line.empty()) {
    found.notes.push_back(std::move(line));
  }
  found.model.preprocess = problem.preprocess;
  found.model.predictor = study::calibrate(problem, learned);
  if (options.intervals) {
    found.model.intervals = study::make_intervals(problem, learned, found.model.predictor);
  }
  found.expected = study::expect(problem, learned, found.model.predictor);
  if (const auto order = study::find_order(ordered, problem)) {
    study::measure_later(problem, wanted, learned, *order, hooks, found.expected);
  }
  return found;
}

}  // namespace cdt::run
