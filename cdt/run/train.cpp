#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/safetensors.h>
#include <cdt/core/version.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/saved_model.h>
#include <cdt/run/train.h>
#include <cdt/train/method.h>
#include <fmt/format.h>
#include <torch/version.h>

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

/// Takes the advice where nobody has decided.
void take_advice(const study::Tuning& advice, const Options& options,
                 train::TrainOptions& training) {
  if (!is_decided(options, "lr")) training.learning_rate = advice.learning_rate;
  if (!is_decided(options, "p") && advice.p) training.p = *advice.p;
  if (!is_decided(options, "steps")) training.steps = advice.steps;
}

/// One call of run::train, stage by stage.
class Session {
 public:
  Session(const Options& options, const Hooks& hooks)
      : options_(options),
        hooks_(hooks),
        run_{RunFolder(options.folder.empty() ? next_free_folder() : options.folder),
             {},
             {},
             options.training,
             {}} {}

  TrainedRun run() {
    load();
    std::optional<train::Trainer> trainer;
    make(trainer);  // refuses bad options
    bool anew = true;
    if (options_.resume) {
      // None yet: it was interrupted before its first step, and starts anew.
      anew = !path_exists(run_.folder.checkpoint());
      compare_with_saved(anew);
      if (run_.record.tuned) make(trainer);
      if (!anew) restore(*trainer);
    } else {
      run_.folder.create(options_.overwrite);
    }
    run_.folder.write_record(run_.record);
    run_.folder.write_preprocess(run_.problem.preprocess);
    if (!options_.resume) run_.folder.forget_results();
    call(hooks_.on_problem, run_.problem);
    if (options_.analysis && anew) analyze(trainer);
    train(*trainer);
    write();
    return std::move(run_);
  }

 private:
  void load() {
    call(hooks_.on_phase, Phase::kLoading);
    study::DataOptions data = options_.data;
    data.classes = run_.training.loss == dynamics::Loss::kCrossEntropy;
    run_.problem = study::load_problem(data, options_.network, run_.training.seed, options_.device);
    const study::Problem& problem = run_.problem;
    options_.data.csv.delimiter = problem.table.delimiter;  // as it was found
    if (!is_decided(options_, "batch")) {
      run_.training.batch = study::usual_batch(problem, run_.training.method);
      if (run_.training.batch > 0) {
        call(hooks_.on_note,
             fmt::format("a kernel of {} rows is large; training by batches of {} samples",
                         problem.data.y.numel(), run_.training.batch));
      }
    }
    CDT_REQUIRE(!options_.tune || options_.analysis,
                "tune chooses by the analysis, which is switched off");
    CDT_REQUIRE(!options_.tune || dynamics::is_quadratic(run_.training.loss),
                "tune forecasts quadratic losses only, not ",
                dynamics::to_string(run_.training.loss));
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
                   problem.table.checksum,
                   problem.table.rows(),
                   problem.preprocess.feature_count(),
                   static_cast<int64_t>(problem.split.train.size()),
                   static_cast<int64_t>(problem.split.validation.size())};
    record.network = {problem.model->describe(), problem.model->parameter_count()};
    record.machine = {options_.device.str(), torch::get_num_threads(), TORCH_VERSION};
    record.seconds.emplace().load = seconds_since(start_);
    static_cast<void>(to_json(record));  // what it cannot hold shows before anything is written
  }

  void make(std::optional<train::Trainer>& trainer) const {
    const study::Problem& problem = run_.problem;
    trainer.emplace(problem.model, problem.data, run_.training, nn::make_engine(problem.model));
  }

  void compare_with_saved(bool anew) {
    const RunRecord saved = run_.folder.read_record();
    require_same_run(options_, saved.settings, saved.defaults, run_.folder.path().string());
    CDT_REQUIRE(saved.data.checksum == run_.problem.table.checksum, options_.data.file,
                ": the file has changed since the run started");
    run_.record.analysis = saved.analysis;
    run_.record.analysis_text = saved.analysis_text;
    if (!options_.tune || anew) return;
    CDT_REQUIRE(saved.tuned, run_.folder.path().string(),
                ": cannot be resumed; it was tuned, and its run.json does not say to what");
    run_.record.tuned = saved.tuned;
    take_advice(*saved.tuned, options_, run_.training);
  }

  void restore(train::Trainer& trainer) {
    try {
      trainer.restore(load_safetensors(run_.folder.checkpoint()));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(c10::str(run_.folder.checkpoint().string(), ": ", error.what()));
    }
  }

  void analyze(std::optional<train::Trainer>& trainer) {
    call(hooks_.on_phase, Phase::kAnalysis);
    const auto began = Clock::now();
    const std::string reason = study::reason_to_skip(run_.problem, run_.training);
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
    if (!findings.classes) {
      trainer->adopt(findings.modes, findings.kernel_seconds);
      run_.folder.write_spectrum(findings);
    }
    run_.record.analysis = study::to_json(findings);
    run_.record.analysis_text = study::to_text(findings);
    run_.record.seconds->analysis = seconds_since(began);
    run_.folder.write_record(run_.record);
    call(hooks_.on_findings, findings);
  }

  void train(train::Trainer& trainer) {
    call(hooks_.on_phase, Phase::kTraining);
    train::TrainHooks hooks;
    hooks.stop_requested = hooks_.stop_requested;
    if (hooks_.on_step) {
      hooks.on_step = [this](const train::StepRecord& row) {
        hooks_.on_step(row, run_.training.steps);
      };
    }
    hooks.checkpoint = [this](const SafeTensors& content) {
      try {
        save_safetensors(run_.folder.checkpoint(), content);
      } catch (const std::exception& error) {
        call(hooks_.on_warning,
             fmt::format("no checkpoint could be written, training goes on: {}", error.what()));
      }
    };
    run_.result = trainer.run(hooks);
    run_.record.seconds->training = run_.result.seconds;
  }

  void write() {
    call(hooks_.on_phase, Phase::kWriting);
    const RunFolder& folder = run_.folder;
    folder.write_history(run_.result.history);
    RunRecord& record = run_.record;
    record.in_words = run_.result.in_words();
    record.result = run_.result;
    record.result->history.clear();
    if (run_.result.diverged()) {
      std::error_code absent;  // a resumed run has a model from before it diverged
      std::filesystem::remove(folder.model(), absent);
      std::filesystem::remove(folder.predictions(), absent);
    } else {
      nn::save_model(folder.model(), run_.problem.model);
      folder.write_predictions(run_.problem, options_.csv_safe);
      record.errors = measure_errors(run_.problem);
    }
    record.seconds->total = seconds_since(start_);
    folder.write_record(record);
    try {
      folder.write_report();
    } catch (const std::exception& error) {
      call(hooks_.on_warning, fmt::format("the run has no report: {}", error.what()));
    }
  }

  Options options_;
  const Hooks& hooks_;
  const Clock::time_point start_ = Clock::now();
  TrainedRun run_;
};

}  // namespace

TrainedRun train(const Options& options, const Hooks& hooks) {
  return Session(options, hooks).run();
}

}  // namespace cdt::run
