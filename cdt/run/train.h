/// From a table, or pictures, to a trained network in a folder: load, analyse, tune, train, write.
/// What `cdt train` does, for any caller.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/folder.h>
#include <cdt/run/learn.h>

namespace cdt::run {

/// What a run is busy with.
enum class Phase { kLoading, kAnalysis, kTraining, kWriting };

/// What a caller may want to see and decide while it runs; all may be empty.
struct Hooks {
  std::function<void(Phase)> on_phase;
  /// What the run will do, before anything is written; of tune without what the forecast finds.
  std::function<void(const study::Decision&)> on_decision;
  /// The problem is there, and so is the folder.
  std::function<void(const study::Problem&)> on_problem;
  /// The pre-flight; not of a resumed run, which has it already.
  std::function<void(const study::Findings&)> on_findings;
  /// Why there is no pre-flight, although it was asked for.
  std::function<void(const std::string& reason)> on_skipped;
  std::function<void(int64_t done, int64_t total)> on_pictures;  ///< while they are decoded
  std::function<void(int64_t done, int64_t total)> on_kernel;    ///< in blocks
  /// On a GPU rows come by the stride (train/stride.h): some steps late.
  std::function<void(const train::StepRecord&, int64_t steps)> on_step;
  /// Under the goal predict: a point of all walks, or of the refit.
  std::function<void(study::LearnStage, const train::StepRecord&, int64_t points)> on_point;
  std::function<bool()> stop_requested;
  /// What the run has chosen for the caller.
  std::function<void(const std::string&)> on_note;
  /// What went wrong and does not end the run: no checkpoint, no report.
  std::function<void(const std::string&)> on_warning;
};

struct TrainedRun {
  RunFolder folder;
  RunRecord record;
  study::Problem problem;
  train::TrainOptions training;  ///< as they held: tuned, with the batch that was chosen
  train::TrainResult result;
  study::Predictor predictor;  ///< under the goal predict, once it has ended; problem.model is its
                               ///< first member
};

/// Trains and writes the folder. An interrupted run has a checkpoint there; with `resume` the same
/// options (more steps apart) go on from it to the same bits as an uninterrupted run. Whatever
/// fails and whenever the process is killed, the folder holds one run as a whole: with `overwrite`
/// the old one until the new one has a checkpoint or has ended. A finished run that diverges as it
/// goes on stays as it was.
///
/// Of several ranks the first one does so, and the others help it to train: they see no hooks but
/// stop_requested, write nothing, and return with the result alone.
/// @throws InvalidArgument if an option or the file is wrong, the folder holds a run already, or
///   none to resume, or another, or another process writes to it.
/// @throws IoError if the machine refuses to write, as on a full disk.
/// @throws NumericalError if the kernel cannot be computed.
TrainedRun train(const Options& options, const Hooks& hooks = {});

/// What `train` would decide with these options: reads the data, trains and writes nothing.
/// @throws as train does before it makes the folder.
study::Decision explain(const Options& options, const Hooks& hooks = {});

}  // namespace cdt::run
