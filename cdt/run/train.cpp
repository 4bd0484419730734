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
#include <cdt/run/train.h>
#include <cdt/study/parts/cost.h>
#include <cdt/study/parts/order.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/parts/rehearsal.h>
#include <cdt/study/parts/scope.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>

namespace cdt::run {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class... Arguments>
void call(const std::function<void(Arguments...)>& hook,
          std::type_identity_t<Arguments>... arguments) {
  if (hook) hook(arguments...);
}

/// Training and validation rows that repeat another.
int64_t count_repeated(const study::Problem& problem) {
  const std::vector<int64_t>& rows = problem.different;
  if (rows.empty()) return 0;
  return static_cast<int64_t>(rows.size()) - 1 - *std::max_element(rows.begin(), rows.end());
}

/// One call of run::train, stage by stage.
class Session {
 public:
  Session(const Options& options, const Hooks& hooks)
      : given_(options),
        decision_(study::decide(options, study::facts_of(options.data.file))),
        hooks_(hooks),
        claim_(options_),
        run_{claim_.folder(), {}, {}, options_.training, {}, {}} {}

  /// All that comes before the folder, and no more.
  study::Decision explain() {
    require_sound();
    load();
    std::optional<train::Trainer> trainer;
    std::optional<study::Learner> learner;
    make(trainer, learner);
    call(hooks_.on_decision, decision_);
    return std::move(decision_);
  }

  TrainedRun run() {
    require_sound();
    if (predicts() && !options_.ranks->several()) {
      rehearsal_.emplace(options_.device, options_.training, options_.network);
    }
    const bool helps = options_.ranks->rank() > 0;
    if (!helps) claim_.lock_known_folder();
    load();
    std::optional<train::Trainer> trainer;
    std::optional<study::Learner> learner;
    make(trainer, learner);
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
    call(hooks_.on_decision, decision_);
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

  void require_sound() const {
    require_fitting(options_);
    if (!options_.resume) study::require_read(options_);
  }

  void tell(size_t from = 0) const {
    for (size_t i = from; i < decision_.notes.size(); ++i) call(hooks_.on_note, decision_.notes[i]);
  }

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
    decision_ = study::decide(given_, study::facts_of(table, data));
    tell();
    data.classes = options_.data.classes;
    run_.problem =
        study::make_problem(table, data, options_.network, options_.training.seed, options_.device);
    run_.problem.table = std::move(table);
    const study::Problem& problem = run_.problem;
    const size_t told = decision_.notes.size();
    decision_ = study::complete(std::move(decision_), problem);
    tell(told);
    run_.training = decision_.training;
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

  void make(std::optional<train::Trainer>& trainer) const {
    const study::Problem& problem = run_.problem;
    trainer.emplace(problem.model, train::own_rows(problem.data), run_.training,
                    nn::make_engine(problem.model));
  }

  /// The one that the goal asks for; refuses bad options.
  void make(std::optional<train::Trainer>& trainer, std::optional<study::Learner>& learner) const {
    if (!predicts()) return make(trainer);
    learner.emplace(run_.problem, *decision_.learn);
  }

  void take_advice(const study::Tuning& advice) {
    study::follow(advice, decision_);
    run_.training = decision_.training;
  }

  void compare_with_saved(bool anew) {
    const RunRecord saved = run_.folder.read_record();
    std::vector<std::string> own;  // of before they were refused
    for (const SettingValue& setting : saved.settings) own.push_back(setting.name);
    study::require_read(options_, own);
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
    take_advice(*saved.tuned);
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
    if (!decision_.no_analysis.empty()) {
      call(hooks_.on_skipped, decision_.no_analysis);
      return;
    }
    study::AnalysisOptions wanted = study::analysis_of(run_.training);
    wanted.forecast = options_.tune;
    wanted.progress = hooks_.on_kernel;
    wanted.residual = !train::is_controlled(run_.training.method);
    study::Findings findings = study::analyze(run_.problem, wanted);
    if (options_.tune) {
      run_.record.tuned = study::best_tuning(findings, run_.training.method);
      take_advice(*run_.record.tuned);
      make(trainer);
    }
    const bool of_kernel = findings.preflight.loss->quadratic();  // else of the loss's coordinates
    if (of_kernel) trainer->adopt(findings.modes, findings.kernel_seconds);
    study::promise(findings, *trainer, run_.training);
    claim_.add(run_.record, [&](const RunFolder& staged, RunRecord& record) {
      if (of_kernel) staged.write_spectrum(findings);
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
    const study::LearnOptions& wanted = *decision_.learn;
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
      const auto predictions = predict_splits(run_.problem, run_.training.loss);
      staged.write_predictions(
          run_.problem.preprocess, predictions, options_.csv_safe,
          run_.problem.table.pictures ? run_.problem.table.find(study::kPictureColumn) : nullptr);
      record.errors = measure_errors(run_.problem, predictions);
    });
    report();
  }

  const Options& given_;
  study::Decision decision_;
  Options& options_ = decision_.options;
  const Hooks& hooks_;
  const Clock::time_point start_ = Clock::now();
  Claim claim_;
  TrainedRun run_;
  int64_t earlier_limit_ = 0;                  ///< of steps, of the run that is resumed
  std::optional<study::Rehearsal> rehearsal_;  ///< of a path on a GPU, until it begins
};

}  // namespace

study::Decision explain(const Options& options, const Hooks& hooks) {
  return Session(options, hooks).explain();
}

TrainedRun train(const Options& options, const Hooks& hooks) {
  return Session(options, hooks).run();
}

}  // namespace cdt::run
