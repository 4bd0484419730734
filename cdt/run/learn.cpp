#include <cdt/core/error.h>
#include <cdt/data/csv/column_builder.h>
#include <cdt/data/encode/identifiers.h>
#include <cdt/data/rows/rows.h>
#include <cdt/run/learn.h>
#include <cdt/run/settings.h>
#include <cdt/study/parts/order.h>
#include <cdt/study/parts/scope.h>

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

LearnedTable learn(const data::Table& table, const Options& given, const study::LearnHooks& hooks) {
  CDT_REQUIRE(given.data.goal != study::Goal::kFit,
              "learning a table is for the goal predict, got fit");
  Options options = given;
  if (options.data.is_pictures) options.data.goal = study::Goal::kPredict;
  study::require_read(study::decide(options, {.pictures = options.data.is_pictures}).options);
  LearnedTable found;
  const data::Table ordered = in_order(table, options, found.notes);
  study::Decision decision = study::decide(options, study::facts_of(ordered, options.data));
  options = decision.options;
  const study::Problem problem = study::make_problem(ordered, options.data, options.network,
                                                     options.training.seed, options.device);
  const auto told = static_cast<std::ptrdiff_t>(decision.notes.size());
  decision = study::complete(std::move(decision), problem);
  const auto first = decision.notes.begin();
  found.notes.insert(found.notes.end(), first, first + told);
  found.notes.insert(found.notes.end(), problem.notes.begin(), problem.notes.end());
  found.notes.insert(found.notes.end(), first + told, decision.notes.end());
  found.choices = decision.choices;
  const study::LearnOptions& wanted = *decision.learn;
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
