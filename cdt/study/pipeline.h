/// From a table to a trained, calibrated and recorded model, without a folder: decide, encode,
/// complete, pre-flight, train or learn, calibrate, expect, predict, record. Used by `cdt train`,
/// the estimators, and the cases of a sweep.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/decision.h>
#include <cdt/study/record.h>
#include <cdt/study/trained_model.h>

#include <chrono>

namespace cdt::study {

/// Current phase of a run.
enum class Phase { kLoading, kAnalysis, kTraining, kWriting };

/// Callbacks during a run; all may be empty.
struct Hooks {
  std::function<void(Phase)> on_phase;
  /// Called with the plan of the run, before anything is written; with tune, without the forecast's
  /// choices.
  std::function<void(const Decision&)> on_decision;
  /// Called when the problem exists, and the folder, if there is one.
  std::function<void(const Problem&)> on_problem;
  /// Called after the pre-flight; not in a resumed run, which already has it.
  std::function<void(const analysis::Preflight&)> on_preflight;
  /// Called with the reason if a requested pre-flight is skipped.
  std::function<void(const std::string& reason)> on_skipped;
  std::function<void(int64_t done, int64_t total)> on_pictures;  ///< while decoding
  std::function<void(int64_t done, int64_t total)> on_kernel;    ///< in blocks
  /// On a GPU rows arrive in strides (train/stride.h), some steps late.
  std::function<void(const train::StepRecord&, int64_t steps)> on_step;
  /// Goal predict: called after each point of all fold networks, or of the refit.
  std::function<void(LearnStage, const train::StepRecord&, int64_t points)> on_point;
  std::function<bool()> stop_requested;
  /// State to resume from: every `checkpoint_seconds`, when asked to stop, and at the end.
  std::function<void(const SafeTensors&)> checkpoint;
  /// Choices made for the caller.
  std::function<void(const std::string&)> on_note;
  /// Failures that do not end the run: no checkpoint, no report.
  std::function<void(const std::string&)> on_warning;
};

/// A run's decision and results.
struct Run {
  Decision decision;
  Problem problem;  ///< its model is the trained one; with goal predict the first member
  train::TrainResult result;
  std::optional<Learned> learned;  ///< goal predict, once it has finished
  Predictor predictor;             ///< once training has finished; for a fit only the model
  std::optional<Intervals> intervals;
  std::vector<SplitPredictions> predictions;  ///< none if training diverged
  /// Choices and cautions, in words, in order of occurrence.
  std::vector<std::string> notes;
  Record record;

  TrainedModel model() const { return {problem.preprocess, predictor, intervals}; }
};

/// Runs on a table in memory. Ignores the file in the options, their folder, resume and overwrite.
/// If asked to stop, returns with the outcome kInterrupted; with goal predict there is then no
/// predictor.
/// @throws InvalidArgument if an option or the table is wrong.
/// @throws NumericalError if a kernel cannot be computed.
Run run(const data::Table& table, const RunOptions& given, const Hooks& hooks = {});

/// Runs with goal predict (the default here) up to the expected error on new rows; predicts nothing
/// yet. Rows of the table in another order give bitwise the same model.
/// @throws as run() does, and InvalidArgument if the goal is fit.
Run learn(const data::Table& table, const RunOptions& given, const Hooks& hooks = {});

/// One run, stage by stage, for callers that store intermediate results. Call the stages in the
/// order below; stages that a goal lacks do nothing.
///
/// With several ranks (RunOptions::ranks) all prepare and train; only the first continues. The
/// others call no hook but stop_requested.
class Pipeline {
 public:
  /// Decides from what is known before the data are read.
  Pipeline(const RunOptions& given, const Facts& facts, Hooks hooks = {});
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Reads the file named in the options, or takes a table; decides from the data, encodes them,
  /// completes the decision and creates the trainer. `rows` are the rows to learn from; empty: all.
  /// @throws InvalidArgument if an option or the data are wrong, or ranks differ.
  void prepare();
  void prepare(data::Table table, const std::vector<int64_t>& rows = {});

  /// Continues an earlier run: with its tuning, and from its checkpoint.
  void follow(const Tuning& advice);
  /// @throws InvalidArgument if the content is not a checkpoint of such a run.
  void restore(const SafeTensors& checkpoint);
  /// The point at which all fold networks had stopped by themselves: a higher limit changes
  /// nothing.
  std::optional<int64_t> ended_at() const;

  /// Runs the pre-flight, if there is one, and applies tuning.
  void analyze();
  /// Trains to the end, or until asked to stop.
  void train();
  /// Creates the predictor, unless fold networks were interrupted.
  void calibrate();
  /// Computes the expected error on new rows, and intervals.
  void expect();
  /// Computes predictions of the rows, errors, and the rest of a finished run's record.
  void finish();

  void note(const std::string& text);
  Run& run() { return run_; }

 private:
  void encode(data::Table table, const std::vector<int64_t>& rows);
  void make_trainer();
  void start_record();
  void require_same_everywhere() const;
  bool predicts() const { return run_.decision.options.data.goal == Goal::kPredict; }
  bool ended() const { return run_.result.outcome != train::Outcome::kInterrupted; }
  LearnHooks learn_hooks() const;
  int most_threads() const;

  const RunOptions given_;
  Hooks hooks_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Run run_;
  std::optional<train::Trainer> trainer_;
  std::optional<Learner> learner_;
};

}  // namespace cdt::study
