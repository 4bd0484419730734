/// From a table to a trained, calibrated and recorded model, without a folder: decide, encode,
/// complete, pre-flight, train or learn, calibrate, expect, predict, record. What `cdt train` does,
/// what estimators do, and what a case of a sweep is.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/decision.h>
#include <cdt/study/record.h>
#include <cdt/study/trained_model.h>

#include <chrono>

namespace cdt::study {

/// What a run is busy with.
enum class Phase { kLoading, kAnalysis, kTraining, kWriting };

/// What a caller may want to see and decide while it runs; all may be empty.
struct Hooks {
  std::function<void(Phase)> on_phase;
  /// What the run will do, before anything is written; of tune without what the forecast finds.
  std::function<void(const Decision&)> on_decision;
  /// The problem is there, and so is the folder, if there is one.
  std::function<void(const Problem&)> on_problem;
  /// The pre-flight; not of a resumed run, which has it already.
  std::function<void(const analysis::Preflight&)> on_preflight;
  /// Why there is no pre-flight, although it was asked for.
  std::function<void(const std::string& reason)> on_skipped;
  std::function<void(int64_t done, int64_t total)> on_pictures;  ///< while they are decoded
  std::function<void(int64_t done, int64_t total)> on_kernel;    ///< in blocks
  /// On a GPU rows come by the stride (train/stride.h): some steps late.
  std::function<void(const train::StepRecord&, int64_t steps)> on_step;
  /// Under the goal predict: a point of all walks, or of the refit.
  std::function<void(LearnStage, const train::StepRecord&, int64_t points)> on_point;
  std::function<bool()> stop_requested;
  /// What training can go on from: every `checkpoint_seconds`, when asked to stop, and at its end.
  std::function<void(const SafeTensors&)> checkpoint;
  /// What the run has chosen for the caller.
  std::function<void(const std::string&)> on_note;
  /// What went wrong and does not end the run: no checkpoint, no report.
  std::function<void(const std::string&)> on_warning;
};

/// What was decided, and what came of it.
struct Run {
  Decision decision;
  Problem problem;  ///< its model is the trained one; under the goal predict the first member
  train::TrainResult result;
  std::optional<Learned> learned;  ///< under the goal predict, once it has ended
  Predictor predictor;             ///< once training has ended; of a fit the model alone
  std::optional<Intervals> intervals;
  std::vector<SplitPredictions> predictions;  ///< none if training diverged
  /// What was chosen and what is to be kept in mind, in words, in the order in which it came up.
  std::vector<std::string> notes;
  Record record;

  TrainedModel model() const { return {problem.preprocess, predictor, intervals}; }
};

/// A run of a table in memory. The file in the options is not looked at, nor are their folder,
/// resume and overwrite. Asked to stop, it returns with the outcome kInterrupted; under the goal
/// predict there is no predictor then.
/// @throws InvalidArgument if an option or the table is wrong.
/// @throws NumericalError if a kernel cannot be computed.
Run run(const data::Table& table, const RunOptions& given, const Hooks& hooks = {});

/// A run of the goal predict, said or not, up to what is to be expected of new rows: nothing is
/// predicted yet. The same rows in another order of the table give the same model, bit by bit.
/// @throws as run() does, and InvalidArgument if the goal is fit.
Run learn(const data::Table& table, const RunOptions& given, const Hooks& hooks = {});

/// One run, stage by stage, for whoever keeps what comes between. Stages are called in the order in
/// which they stand here; those that a goal has not do nothing.
///
/// Of several ranks (RunOptions::ranks) all prepare and train; the first one goes on. The others
/// see no hooks but stop_requested.
class Pipeline {
 public:
  /// Decides by what is known before the data are read.
  Pipeline(const RunOptions& given, const Facts& facts, Hooks hooks = {});
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Decides by the data, encodes them, completes the decision and makes what trains: of the file
  /// that the options name, or of a table. `rows` are those to learn from; empty: all of them.
  /// @throws InvalidArgument if an option or the data are wrong, or ranks differ.
  void prepare();
  void prepare(data::Table table, const std::vector<int64_t>& rows = {});

  /// Goes on as an earlier run did: by its advice, and from a checkpoint of it.
  void follow(const Tuning& advice);
  /// @throws InvalidArgument if the content is no checkpoint of such a run.
  void restore(const SafeTensors& checkpoint);
  /// The point at which walks had ended by themselves: a higher limit of points changes nothing.
  std::optional<int64_t> ended_at() const;

  /// The pre-flight, if there is one, and what tune takes from it.
  void analyze();
  /// To the end, or until asked to stop.
  void train();
  /// Makes the predictor. Not of walks that were interrupted: nothing predicts then.
  void calibrate();
  /// What to expect of new rows, and intervals.
  void expect();
  /// Predictions of the rows, errors, and what else the record says of a run that has ended.
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
