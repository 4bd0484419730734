#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/machine/memory.h>
#include <cdt/core/machine/threads.h>
#include <cdt/core/safetensors.h>
#include <cdt/core/text/format.h>
#include <cdt/core/version.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/saved_model.h>
#include <cdt/run/parts/claim.h>
#include <cdt/run/parts/scope.h>
#include <cdt/run/train.h>
#include <cdt/study/parts/cost.h>
#include <cdt/study/parts/order.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/rehearsal.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>

namespace cdt::run {
namespace {

using Clock = std::chrono::steady_clock;

/// Steps without a gain after which a guarded run ends.
constexpr int64_t kPlateau = 15;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class... Arguments>
void call(const std::function<void(Arguments...)>& hook,
          std::type_identity_t<Arguments>... arguments) {
  if (hook) hook(arguments...);
}

/// Takes the advice where nobody has decided.
void take_advice(const study::Tuning& advice, const Options& options,
                 train::TrainOptions& training) {
  if (!is_decided(options, "lr")) training.learning_rate = advice.learning_rate;
  if (!is_decided(options, "p") && advice.p) training.p = *advice.p;
  if (!is_decided(options, "steps")) training.steps = advice.steps;
}

/// Training and validation rows that repeat another.
int64_t count_repeated(const study::Problem& problem) {
  const std::vector<int64_t>& rows = problem.different;
  if (rows.empty()) return 0;
  return static_cast<int64_t>(rows.size()) - 1 - *std::max_element(rows.begin(), rows.end());
}

/// Looks at what the file is, and takes the usual goal, and a network for pictures, where nobody
/// has chosen one.
Options know_data(Options options) {
  options.data.is_pictures = study::holds_pictures(options.data.file);
  if (!options.data.goal) {
    options.data.goal = options.data.is_pictures ? study::Goal::kFit : study::Goal::kPredict;
  }
  if (!options.data.is_pictures || is_decided(options, "arch")) return options;
  const bool layers = is_decided(options, "hidden");
  const std::vector<int64_t> channels = options.network.hidden;
  options.network.choose(study::kUsualPictureNetwork);
  if (layers) options.network.hidden = channels;
  return options;
}

/// One call of run::train, stage by stage.
class Session {
 public:
  Session(const Options& options, const Hooks& hooks)
      : options_(resolved(know_data(options))),
        hooks_(hooks),
        claim_(options_),
        run_{claim_.folder(), {}, {}, options_.training, {}, {}} {
    if (predicts() && !options_.ranks->several()) {
      rehearsal_.emplace(options_.device, options_.training, options_.network);
    }
  }

  void preview(Preview& found) {
    require_fitting(options_);
    if (!options_.resume) require_read(options_);
    load();
    std::optional<train::Trainer> trainer;
    std::optional<study::Learner> learner;
    if (predicts()) {
      make(learner);
    } else {
      make(trainer);  // refuses bad options
    }
    found.options = options_;
    found.training = run_.training;
    if (predicts()) found.learn = learn_options(options_, run_.problem);
    if (!predicts() && options_.analysis) {
      found.skipped = options_.ranks->several()
                          ? "workers share the rows"
                          : study::reason_to_skip(run_.problem, run_.training);
    }
  }

  TrainedRun run() {
    require_fitting(options_);
    if (!options_.resume) require_read(options_);
    const bool helps = options_.ranks->rank() > 0;
    if (!helps) claim_.lock_known_folder();
    load();
    std::optional<train::Trainer> trainer;
    std::optional<study::Learner> learner;
    if (predicts()) {
      make(learner);
    } else {
      make(trainer);  // refuses bad options
    }
    bool anew = true;
    if (options_.resume) {
      // None yet: it was interrupted before its first step, and starts anew.
      anew = !path_exists(run_.folder.checkpoint());
      options_.ranks->require_same("checkpoint",
                                   anew ? "none" : checksum_of_file(run_.folder.checkpoint()));
      compare_with_saved(anew);
      if (run_.record.tuned) make(trainer);
      if (!anew && learner) {
        restore(*learner);
        const auto last = learner->ended_at();
        if (last && run_.training.steps > earlier_limit_) {
          call(
              hooks_.on_note,
              fmt::format("errors on held-out rows had stopped falling at point {}: a higher limit "
                          "changes nothing",
                          *last));
        }
      }
      if (!anew && trainer) restore(*trainer);
    }
    if (helps) return help(learner, trainer);
    try {
      claim_.take();
      run_.folder = claim_.folder();
      if (anew) claim_.begin(run_.record, run_.problem.preprocess);
    } catch (...) {
      claim_.give_back();
      throw;
    }
    call(hooks_.on_problem, run_.problem);
    if (learner) {
      learn(*learner);
      return std::move(run_);
    }
    if (options_.analysis && anew) analyze(trainer);
    train(*trainer);
    write();
    return std::move(run_);
  }

 private:
  bool predicts() const { return options_.data.goal == study::Goal::kPredict; }

  /// What ranks beside the first one do.
  TrainedRun help(std::optional<study::Learner>& learner, std::optional<train::Trainer>& trainer) {
    if (learner) {
      study::LearnHooks hooks;
      hooks.stop_requested = hooks_.stop_requested;
      run_.result = learner->run(hooks).result;
    } else {
      train::TrainHooks hooks;
      hooks.stop_requested = hooks_.stop_requested;
      run_.result = trainer->run(hooks);
    }
    return std::move(run_);
  }

  /// Ranks that differ would go different ways.
  void require_same_everywhere() const {
    const train::Ranks& ranks = *options_.ranks;
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

  void load() {
    call(hooks_.on_phase, Phase::kLoading);
    study::DataOptions data = options_.data;
    data.pictures.progress = hooks_.on_pictures;
    data::Table table = study::read_table(data);
    const std::string note = decide_loss(options_, table);
    run_.training.loss = options_.training.loss;
    if (!note.empty()) call(hooks_.on_note, note);
    data.classes = run_.training.loss->classes();
    run_.problem =
        study::make_problem(table, data, options_.network, run_.training.seed, options_.device);
    run_.problem.table = std::move(table);
    const study::Problem& problem = run_.problem;
    if (!data.is_pictures) options_.data.csv.delimiter = problem.table.delimiter;  // as found
    if (const std::string note = decide_form(options_, problem); !note.empty()) {
      run_.training = options_.training;
      call(hooks_.on_note, note);
    }
    if (!predicts() && !is_decided(options_, "batch") && !options_.ranks->several()) {
      choose_batch();
    }
    CDT_REQUIRE(options_.resume || predicts() || !is_decided(options_, "reshuffle") ||
                    run_.training.batch > 0,
                "reshuffle: it would do nothing here: every step takes all rows, and it needs "
                "batches of them (--batch)");
    if (ends_on_a_plateau()) {
      const int64_t rows = problem.data.x.size(0), batch = run_.training.batch;
      run_.training.plateau = kPlateau * (batch > 0 ? (rows + batch - 1) / batch : 1);
    }
    CDT_REQUIRE(!options_.tune || !predicts(),
                "tune forecasts how well training rows are fitted; it belongs to the goal fit");
    CDT_REQUIRE(!options_.tune || options_.analysis,
                "tune chooses by the analysis, which is switched off");
    CDT_REQUIRE(!options_.tune || run_.training.loss->quadratic(),
                "tune forecasts quadratic losses only, not ", to_string(run_.training.loss));
    CDT_REQUIRE(!options_.tune || train::traits_of(run_.training.method).follows_forecast,
                "tune forecasts gradient descent and CDT, so it has no advice for ",
                train::to_string(run_.training.method), "; it is for gd, cdt and guarded");
    const std::string reason = study::reason_to_skip(problem, run_.training);
    CDT_REQUIRE(!options_.tune || reason.empty(),
                "tune needs the analysis of all samples at once: ", reason);
    RunRecord& record = run_.record;
    record.version = kVersion;
    record.revision = kRevision;
    record.settings = decided_settings(options_);
    record.defaults = usual_settings(options_);
    record.seed = run_.training.seed;
    record.data = {std::filesystem::absolute(data.file).string(),
                   problem.checksum,
                   problem.table.rows(),
                   problem.preprocess.feature_count(),
                   static_cast<int64_t>(problem.split.train.size()),
                   static_cast<int64_t>(problem.split.validation.size()),
                   problem.table.inputs,
                   static_cast<int64_t>(problem.skipped.size()),
                   count_repeated(problem)};
    record.network = {problem.model->describe(), problem.model->parameter_count()};
    record.machine = {options_.device.str(), torch::get_num_threads(), TORCH_VERSION};
    record.machine.workers = options_.ranks->size();
    record.seconds.emplace().load = seconds_since(start_);
    static_cast<void>(to_json(record));  // what it cannot hold shows before anything is written
    require_same_everywhere();
    run_.problem.data.ranks = options_.ranks;
  }

  /// Samples a step, or the form of steps from all of them.
  void choose_batch() {
    const study::Problem& problem = run_.problem;
    train::TrainOptions& training = run_.training;
    training.batch = study::usual_batch(problem, training);
    if (training.form == train::Form::kBatch || study::kernel_fits(problem, training)) return;
    const int64_t rows = problem.data.x.size(0);
    if (training.form != train::Form::kAuto) {
      call(hooks_.on_note,
           fmt::format("form {}: each step is taken from all {} rows (--batch decides)",
                       train::to_string(training.form), rows));
      return;
    }
    const std::string words =
        fmt::format("a kernel of {} rows would take long at each step; ", problem.data.y.numel());
    if (study::takes_form(problem, training)) {
      training.most_modes = 0;
      call(hooks_.on_note,
           words +
               fmt::format("steps are taken from all {} rows, by a form (--batch decides)", rows));
    } else {
      call(hooks_.on_note,
           words +
               fmt::format("training by batches of {} samples (--batch decides)", training.batch));
    }
  }

  /// A guarded run that finds its own rate takes steps as long as they can be: if some dozen of
  /// them gain nothing, the rest is out of reach.
  bool ends_on_a_plateau() const {
    return !predicts() && !is_decided(options_, "plateau") &&
           run_.training.method == train::Method::kGuarded && !run_.training.learning_rate &&
           run_.training.loss->quadratic();
  }

  void make(std::optional<train::Trainer>& trainer) const {
    const study::Problem& problem = run_.problem;
    trainer.emplace(problem.model, train::own_rows(problem.data), run_.training,
                    nn::make_engine(problem.model));
  }

  void make(std::optional<study::Learner>& learner) const {
    learner.emplace(run_.problem, learn_options(options_, run_.problem));
  }

  void compare_with_saved(bool anew) {
    const RunRecord saved = run_.folder.read_record();
    std::vector<std::string> own;  // of before they were refused
    for (const SettingValue& setting : saved.settings) own.push_back(setting.name);
    require_read(options_, own);
    require_same_run(options_, saved.settings, saved.defaults, run_.folder.path().string());
    CDT_REQUIRE(saved.data.checksum == run_.problem.checksum, options_.data.file, ": the ",
                options_.data.is_pictures ? "pictures have" : "file has",
                " changed since the run started");
    if (anew) return;
    run_.folder.require_intact(saved, run_.folder.checkpoint());
    earlier_limit_ = options_of(saved).training.steps;
    RunRecord& record = run_.record;
    record.analysis = saved.analysis;
    record.analysis_text = saved.analysis_text;
    if (saved.seconds) record.seconds->analysis = saved.seconds->analysis;
    // Of the model that the folder has, until it has another.
    record.result = saved.result;
    record.in_words = saved.in_words;
    record.errors = saved.errors;
    record.prediction = saved.prediction;
    record.files = saved.files;
    if (!options_.tune) return;
    CDT_REQUIRE(saved.tuned, run_.folder.path().string(),
                ": cannot be resumed; it was tuned, and its run.json does not say to what");
    run_.record.tuned = saved.tuned;
    take_advice(*saved.tuned, options_, run_.training);
  }

  template <class Resumable>
  void restore(Resumable& trainer) {
    try {
      trainer.restore(load_safetensors(run_.folder.checkpoint()));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(c10::str(run_.folder.checkpoint().string(), ": ", error.what()));
    }
  }

  void analyze(std::optional<train::Trainer>& trainer) {
    call(hooks_.on_phase, Phase::kAnalysis);
    const auto began = Clock::now();
    const std::string reason = options_.ranks->several()
                                   ? "workers share the rows"
                                   : study::reason_to_skip(run_.problem, run_.training);
    if (!reason.empty()) {
      call(hooks_.on_skipped, reason);
      return;
    }
    study::AnalysisOptions wanted = study::analysis_of(run_.training);
    wanted.forecast = options_.tune;
    wanted.progress = hooks_.on_kernel;
    const study::Findings findings = study::analyze(run_.problem, wanted);
    if (options_.tune) {
      run_.record.tuned = study::best_tuning(findings, run_.training.method);
      take_advice(*run_.record.tuned, options_, run_.training);
      make(trainer);
    }
    if (!findings.classes) trainer->adopt(findings.modes, findings.kernel_seconds);
    claim_.add(run_.record, [&](const RunFolder& staged, RunRecord& record) {
      if (!findings.classes) staged.write_spectrum(findings);
      record.analysis = study::to_json(findings);
      record.analysis_text = study::to_text(findings);
      record.seconds->analysis = seconds_since(began);
    });
    call(hooks_.on_findings, findings);
  }

  void save(const SafeTensors& checkpoint) {
    try {
      claim_.show(run_.record, [&](const RunFolder& staged, RunRecord&) {
        save_safetensors(staged.checkpoint(), checkpoint);
      });
    } catch (const std::exception& error) {
      call(hooks_.on_warning,
           fmt::format("no checkpoint could be written, training goes on: {}", error.what()));
    }
  }

  /// What there is to say about a run that has ended, or stopped.
  void describe(RunRecord& record) const {
    record.in_words = run_.result.in_words();
    record.result = run_.result;
    record.result->history.clear();
    record.errors.reset();
    record.seconds->total = seconds_since(start_);
    record.machine.peak_bytes = peak_memory();
    record.machine.device_peak_bytes = peak_memory_of(options_.device);
  }

  void report() {
    try {
      run_.folder.write_report(claim_.mode_of_report());
    } catch (const std::exception& error) {
      call(hooks_.on_warning, fmt::format("the run has no report: {}", error.what()));
    }
  }

  void learn(study::Learner& learner) {
    call(hooks_.on_phase, Phase::kTraining);
    rehearsal_.reset();
    study::LearnHooks hooks;
    hooks.stop_requested = hooks_.stop_requested;
    hooks.on_point = hooks_.on_point;
    hooks.checkpoint = [this](const SafeTensors& content) { save(content); };
    study::Learned learned = learner.run(hooks);
    run_.result = learned.result;
    run_.record.seconds->training = run_.result.seconds;
    const bool ended = run_.result.outcome != train::Outcome::kInterrupted;
    std::vector<study::Expectation> expected;
    if (ended) expected = judge(learned);
    call(hooks_.on_phase, Phase::kWriting);
    claim_.show(run_.record, [&](const RunFolder& staged, RunRecord& record) {
      describe(record);
      record.prediction.reset();
      staged.write_history(run_.result.history);
      staged.write_preprocess(run_.problem.preprocess);
      claim_.drop_report();
      if (ended) write_predictor(staged, record, learned, std::move(expected));
    });
    report();
  }

  /// What predicts, and what held-out rows say of it.
  std::vector<study::Expectation> judge(study::Learned& learned) {
    const study::Problem& problem = run_.problem;
    const study::LearnOptions wanted = learn_options(options_, problem);
    for (const std::string& each : study::cautions(problem, wanted, learned)) {
      call(hooks_.on_warning, each);
    }
    if (const std::string line = study::add_line(problem, wanted.training.loss, learned);
        !line.empty()) {
      call(hooks_.on_note, line);
    }
    run_.predictor = study::calibrate(problem, learned);
    auto expected = study::expect(problem, learned, run_.predictor);
    if (const auto order = study::find_order(problem.table, problem)) {
      study::LearnHooks hooks;
      hooks.stop_requested = hooks_.stop_requested;
      study::measure_later(problem, wanted, learned, *order, hooks, expected);
    }
    return expected;
  }

  void write_predictor(const RunFolder& staged, RunRecord& record, const study::Learned& learned,
                       std::vector<study::Expectation> expected) {
    study::Problem& problem = run_.problem;
    problem.model = run_.predictor.members.at(0);
    const auto members = static_cast<int64_t>(run_.predictor.members.size());
    for (int64_t m = 1; m <= members; ++m) {
      nn::save_model(staged.model(m), run_.predictor.members[static_cast<size_t>(m - 1)]);
    }
    std::optional<study::Intervals> intervals;
    if (options_.intervals) intervals = study::make_intervals(problem, learned, run_.predictor);
    if (intervals) staged.write_intervals(*intervals);
    const auto predictions = predict_splits(problem, run_.predictor, learned, intervals);
    staged.write_predictions(problem.preprocess, predictions, options_.csv_safe);
    record.errors = measure_errors(problem, predictions);
    RunPrediction& found = record.prediction.emplace();
    found.members = members;
    found.points = learned.result.best_step;
    found.decay = learned.decay;
    found.picked = learned.picked;
    found.temperature = run_.predictor.temperature;
    found.targets = run_.predictor.targets;
    if (options_.importance && !learned.held.empty()) {
      found.importance =
          study::permutation_importance(problem, learned, run_.training.loss, run_.training.seed);
    }
    found.expected = std::move(expected);
  }

  void train(train::Trainer& trainer) {
    call(hooks_.on_phase, Phase::kTraining);
    train::TrainHooks hooks;
    hooks.stop_requested = hooks_.stop_requested;
    hooks.rows_may_lag = true;
    if (hooks_.on_step) {
      hooks.on_step = [this](const train::StepRecord& row) {
        hooks_.on_step(row, run_.training.steps);
      };
    }
    hooks.checkpoint = [this](const SafeTensors& content) { save(content); };
    const int most = most_threads(trainer);
    const ThreadCount threads(most > 0 ? std::min(most, at::get_num_threads())
                                       : at::get_num_threads());
    run_.result = trainer.run(hooks);
    run_.record.seconds->training = run_.result.seconds;
  }

  /// Where nobody has said how many.
  int most_threads(const train::Trainer& trainer) const {
    return options_.threads > 0 ? 0 : trainer.most_threads();
  }

  void write() {
    call(hooks_.on_phase, Phase::kWriting);
    if (run_.result.diverged() && run_.record.result && path_exists(run_.folder.model())) {
      call(hooks_.on_warning,
           fmt::format("{} keeps the model and the results that it had after {}",
                       run_.folder.path().string(), count_of(run_.record.result->steps, "step")));
      describe(run_.record);
      return;
    }
    claim_.show(run_.record, [&](const RunFolder& staged, RunRecord& record) {
      describe(record);
      staged.write_history(run_.result.history);
      staged.write_preprocess(run_.problem.preprocess);
      claim_.drop_report();
      if (run_.result.diverged()) return;
      nn::save_model(staged.model(), run_.problem.model);
      const auto predictions = predict_splits(run_.problem);
      staged.write_predictions(
          run_.problem.preprocess, predictions, options_.csv_safe,
          run_.problem.table.pictures ? run_.problem.table.find(study::kPictureColumn) : nullptr);
      record.errors = measure_errors(run_.problem, predictions);
    });
    report();
  }

  Options options_;
  const Hooks& hooks_;
  const Clock::time_point start_ = Clock::now();
  Claim claim_;
  TrainedRun run_;
  int64_t earlier_limit_ = 0;                  ///< of steps, of the run that is resumed
  std::optional<study::Rehearsal> rehearsal_;  ///< of a path on a GPU, until it begins
};

}  // namespace

Preview preview(const Options& options) {
  Preview found;
  Hooks hooks;
  hooks.on_note = [&](const std::string& note) { found.notes.push_back(note); };
  Session(options, hooks).preview(found);
  return found;
}

TrainedRun train(const Options& options, const Hooks& hooks) {
  return Session(options, hooks).run();
}

}  // namespace cdt::run
