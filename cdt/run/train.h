/// Runs (study/pipeline.h) stored in a folder, resumed from it, and reported there: what `cdt
/// train` does, for any caller.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/folder.h>
#include <cdt/study/pipeline.h>

namespace cdt::run {

using study::Hooks, study::Phase;

struct TrainedRun : study::Run {
  RunFolder folder;
};

/// Trains and writes the folder. An interrupted run leaves a checkpoint; with `resume` the same
/// options (except more steps) continue it with bitwise the same result as an uninterrupted run.
/// Even after a failure or kill the folder holds one complete run: with `overwrite` the old one
/// until the new one has a checkpoint or has finished. A finished run that diverges when continued
/// is left unchanged.
///
/// With several ranks, only the first does this. The others take part in training, call no hook
/// except stop_requested, write nothing, and return only the result.
/// @throws InvalidArgument if an option or the file is wrong, the folder already holds a run, or
///   none or another one to resume, or another process writes to it.
/// @throws IoError if writing fails, as on a full disk.
/// @throws NumericalError if the kernel cannot be computed.
TrainedRun train(const Options& options, const Hooks& hooks = {});

/// Returns what `train` would decide with these options: reads the data, but does not train or
/// write.
/// @throws as train does before it creates the folder.
study::Decision explain(const Options& options, const Hooks& hooks = {});

}  // namespace cdt::run
