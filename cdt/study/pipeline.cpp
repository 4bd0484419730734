#include <cdt/core/error.h>
#include <cdt/core/machine/memory.h>
#include <cdt/core/machine/speed.h>
#include <cdt/core/machine/threads.h>
#include <cdt/core/version.h>
#include <cdt/data/csv/column_builder.h>
#include <cdt/data/encode/identifiers.h>
#include <cdt/data/rows/rows.h>
#include <cdt/nn/engine.h>
#include <cdt/study/parts/order.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/scope.h>
#include <cdt/study/pipeline.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>

namespace cdt::study {
namespace {

template <class... Arguments>
void call(const std::function<void(Arguments...)>& hook,
          std::type_identity_t<Arguments>... arguments) {
  if (hook) hook(arguments...);
}

/// Number of training and validation rows that repeat another.
int64_t count_repeated(const Problem& problem) {
  const std::vector<int64_t>& rows = problem.different;
  if (rows.empty()) return 0;
  return static_cast<int64_t>(rows.size()) - 1 - *std::max_element(rows.begin(), rows.end());
}

/// The table sorted by content, with what the original order showed: which columns are identifiers.
data::Table in_order(const data::Table& table, RunOptions& options,
                     std::vector<std::string>& notes) {
  data::Table ordered = data::take_rows(table, data::rows_by_content(table));
  const DataOptions& wanted = options.data;
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
    data::Column answered;  // dates are not identifiers once their order is given
    const bool asked = wanted.csv.dates && column.type == data::ColumnType::kText;
    if (asked) answered = column;
    answered.dates = wanted.csv.dates;
    const auto reason = data::identifier_reason(table, asked ? answered : column);
    if (reason) {
      std::erase_if(ordered.columns, [&](const auto& each) { return each.name == column.name; });
      notes.push_back(c10::str(column.name, ": left out, an identifier: ", *reason));
    } else if (now) {
      keep.push_back(column.name);  // sorting makes it ascend by chance
    }
  }
  return ordered;
}

/// Hooks of the other ranks: they report nothing, but may be asked to stop.
Hooks hooks_of(const RunOptions& options, Hooks hooks) {
  if (options.ranks->rank() == 0) return hooks;
  Hooks few;
  few.stop_requested = std::move(hooks.stop_requested);
  return few;
}

void require_sound(const RunOptions& options) {
  require_fitting(options);
  require_read(options);
}

}  // namespace

Pipeline::Pipeline(const RunOptions& given, const Facts& facts, Hooks hooks)
    : given_(given), hooks_(hooks_of(given, std::move(hooks))) {
  run_.decision = decide(given_, facts);
}

void Pipeline::note(const std::string& text) {
  run_.notes.push_back(text);
  call(hooks_.on_note, text);
}

void Pipeline::prepare() {
  call(hooks_.on_phase, Phase::kLoading);
  DataOptions data = run_.decision.options.data;
  data.pictures.progress = hooks_.on_pictures;
  encode(read_table(data), {});
}

void Pipeline::prepare(data::Table table, const std::vector<int64_t>& rows) {
  call(hooks_.on_phase, Phase::kLoading);
  encode(std::move(table), rows);
}

void Pipeline::encode(data::Table table, const std::vector<int64_t>& rows) {
  Decision& decision = run_.decision;
  Problem& problem = run_.problem;
  decision = decide(given_, facts_of(table, decision.options.data));
  for (const std::string& each : decision.notes) note(each);
  const RunOptions& options = decision.options;
  const uint64_t seed = options.training.seed;
  problem = rows.empty()
                ? make_problem(table, options.data, options.network, seed, options.device)
                : make_problem(table, rows, options.data, options.network, seed, options.device);
  problem.table = std::move(table);
  run_.notes.insert(run_.notes.end(), problem.notes.begin(), problem.notes.end());
  const size_t told = decision.notes.size();
  decision = complete(std::move(decision), problem);
  for (size_t i = told; i < decision.notes.size(); ++i) note(decision.notes[i]);
  start_record();
  require_same_everywhere();
  problem.data.ranks = options.ranks;
  if (predicts()) {
    learner_.emplace(problem, *decision.learn);
  } else {
    make_trainer();
  }
}

void Pipeline::make_trainer() {
  const Problem& problem = run_.problem;
  trainer_.emplace(problem.model, train::own_rows(problem.data), run_.decision.training,
                   nn::make_engine(problem.model));
}

void Pipeline::start_record() {
  const Problem& problem = run_.problem;
  const RunOptions& options = run_.decision.options;
  Record& record = run_.record;
  record.version = kVersion;
  record.revision = kRevision;
  record.settings = decided_settings(options);
  record.defaults = usual_settings(options);
  record.choices = run_.decision.choices;
  record.seed = run_.decision.training.seed;
  const std::string& file = options.data.file;
  record.data = {file.empty() ? file : std::filesystem::absolute(file).string(),
                 problem.checksum,
                 problem.table.rows(),
                 problem.preprocess.feature_count(),
                 static_cast<int64_t>(problem.split.train.size()),
                 static_cast<int64_t>(problem.split.validation.size()),
                 problem.table.inputs,
                 static_cast<int64_t>(problem.skipped.size()),
                 count_repeated(problem)};
  record.network = {problem.model->describe(), problem.model->parameter_count()};
  record.machine = {options.device.str(), torch::get_num_threads(), TORCH_VERSION};
  record.machine.workers = options.ranks->size();
  record.seconds.emplace().load = seconds_since(start_);
}

/// Ranks with different data or options would diverge from each other.
void Pipeline::require_same_everywhere() const {
  const train::Ranks& ranks = *run_.decision.options.ranks;
  if (!ranks.several()) return;
  ranks.require_same("version of the program", c10::str(kVersion, " ", kRevision));
  ranks.require_same("LibTorch", TORCH_VERSION);
  ranks.require_same("number of threads", std::to_string(torch::get_num_threads()));
  ranks.require_same("data file", run_.problem.checksum);
  std::string settings;
  for (const Settings& each : {run_.record.settings, run_.record.defaults}) {
    for (const SettingValue& setting : each) {
      settings += fmt::format("{}={}\n", setting.name, fmt::join(setting.values, " "));
    }
  }
  ranks.require_same("setting", settings);
}

void Pipeline::follow(const Tuning& advice) {
  run_.record.tuned = advice;
  study::follow(advice, run_.decision);
  run_.record.choices = run_.decision.choices;
  make_trainer();
}

void Pipeline::restore(const SafeTensors& checkpoint) {
  if (learner_) {
    learner_->restore(checkpoint);
  } else {
    trainer_->restore(checkpoint);
  }
}

std::optional<int64_t> Pipeline::ended_at() const {
  return learner_ ? learner_->ended_at() : std::nullopt;
}

void Pipeline::analyze() {
  const Decision& decision = run_.decision;
  const bool tune = decision.options.tune;
  if (predicts() || !decision.options.analysis) return;
  call(hooks_.on_phase, Phase::kAnalysis);
  const auto began = Clock::now();
  if (!decision.no_analysis.empty()) {
    call(hooks_.on_skipped, decision.no_analysis);
    return;
  }
  AnalysisOptions wanted = analysis_of(decision.training);
  wanted.forecast = tune;
  wanted.progress = hooks_.on_kernel;
  wanted.residual = !decision.training.method->controlled;
  analysis::Preflight found = study::analyze(run_.problem, wanted);
  if (tune) follow(best_tuning(found, decision.training.method));
  // Other losses have the modes of their coordinates, not the kernel's.
  if (!found.curvature) trainer_->adopt(found.plant->modes(), found.origin.seconds);
  promise(found, *trainer_, decision.training);
  run_.record.analysis = to_json(found);
  run_.record.analysis_text = to_text(found);
  run_.record.seconds->analysis = seconds_since(began);
  call(hooks_.on_preflight, found);
}

LearnHooks Pipeline::learn_hooks() const {
  LearnHooks hooks;
  hooks.stop_requested = hooks_.stop_requested;
  return hooks;
}

/// If the number of threads is not given.
int Pipeline::most_threads() const {
  const RunOptions& options = run_.decision.options;
  return options.threads > 0 || options.ranks->rank() > 0 ? 0 : trainer_->most_threads();
}

void Pipeline::train() {
  call(hooks_.on_phase, Phase::kTraining);
  if (learner_) {
    LearnHooks hooks = learn_hooks();
    hooks.on_point = hooks_.on_point;
    hooks.checkpoint = hooks_.checkpoint;
    run_.learned = learner_->run(hooks);
    run_.result = run_.learned->result;
    if (!ended()) run_.learned.reset();
  } else {
    train::TrainHooks hooks;
    hooks.stop_requested = hooks_.stop_requested;
    hooks.rows_may_lag = true;
    if (hooks_.on_step) {
      hooks.on_step = [this](const train::StepRecord& row) {
        hooks_.on_step(row, run_.decision.training.steps);
      };
    }
    hooks.checkpoint = hooks_.checkpoint;
    const int most = most_threads();
    const ThreadCount threads(most > 0 ? std::min(most, at::get_num_threads())
                                       : at::get_num_threads());
    run_.result = trainer_->run(hooks);
  }
  run_.record.seconds->training = run_.result.seconds;
}

void Pipeline::calibrate() {
  const Problem& problem = run_.problem;
  if (!predicts()) run_.predictor.members = {problem.model};
  if (!run_.learned) return;
  Learned& learned = *run_.learned;
  const LearnOptions& wanted = *run_.decision.learn;
  for (const std::string& each : cautions(problem, wanted, learned)) {
    run_.notes.push_back(each);
    call(hooks_.on_warning, each);
  }
  const std::string line = add_line(problem, wanted.training.loss, learned);
  if (!line.empty()) note(line);
  run_.predictor = study::calibrate(problem, learned);
}

void Pipeline::expect() {
  if (!run_.learned) return;
  Problem& problem = run_.problem;
  const Learned& learned = *run_.learned;
  RunPrediction found;
  found.expected = study::expect(problem, learned, run_.predictor);
  if (const auto order = find_order(problem.table, problem)) {
    measure_later(problem, *run_.decision.learn, learned, *order, learn_hooks(), found.expected);
  }
  problem.model = run_.predictor.members.at(0);
  if (run_.decision.options.intervals) {
    run_.intervals = make_intervals(problem, learned, run_.predictor);
  }
  found.members = static_cast<int64_t>(run_.predictor.members.size());
  found.points = learned.result.best_step;
  found.decay = learned.decay;
  found.picked = learned.picked;
  found.temperature = run_.predictor.temperature;
  found.targets = run_.predictor.targets;
  run_.record.prediction = std::move(found);
}

void Pipeline::finish() {
  call(hooks_.on_phase, Phase::kWriting);
  const Problem& problem = run_.problem;
  const Decision& decision = run_.decision;
  Record& record = run_.record;
  record.in_words = run_.result.in_words();
  record.result = run_.result;
  record.result->history.clear();
  record.errors.reset();
  if (!run_.learned) record.prediction.reset();  // from an earlier run
  if (run_.learned) {
    const Learned& learned = *run_.learned;
    run_.predictions = predict_splits(problem, run_.predictor, learned, run_.intervals);
    if (decision.options.importance && !learned.held.empty()) {
      record.prediction->importance =
          permutation_importance(problem, learned, decision.training.loss, decision.training.seed);
    }
  } else if (!predicts() && !run_.result.diverged()) {
    run_.predictions = predict_splits(problem, run_.decision.training.loss);
  }
  if (!run_.predictions.empty()) record.errors = measure_errors(problem, run_.predictions);
  record.seconds->total = seconds_since(start_);
  record.machine.peak_bytes = peak_memory();
  record.machine.device_peak_bytes = peak_memory_of(decision.options.device);
}

Run run(const data::Table& table, const RunOptions& given, const Hooks& hooks) {
  Pipeline pipeline(given, {.pictures = table.pictures != nullptr}, hooks);
  Run& run = pipeline.run();
  require_sound(run.decision.options);
  pipeline.prepare(table);
  if (given.ranks->rank() > 0) {  // helps the first rank
    pipeline.train();
    return std::move(run);
  }
  call(hooks.on_decision, run.decision);
  call(hooks.on_problem, run.problem);
  pipeline.analyze();
  pipeline.train();
  pipeline.calibrate();
  pipeline.expect();
  pipeline.finish();
  return std::move(run);
}

Run learn(const data::Table& table, const RunOptions& given, const Hooks& hooks) {
  CDT_REQUIRE(given.data.goal != Goal::kFit, "learning a table is for the goal predict, got fit");
  RunOptions options = given;
  std::vector<std::string> notes;
  data::Table ordered = in_order(table, options, notes);
  Pipeline pipeline(options, {.pictures = options.data.is_pictures}, hooks);
  Run& run = pipeline.run();
  require_sound(run.decision.options);
  run.notes = std::move(notes);
  pipeline.prepare(std::move(ordered));
  pipeline.train();
  pipeline.calibrate();
  pipeline.expect();
  return std::move(run);
}

}  // namespace cdt::study
