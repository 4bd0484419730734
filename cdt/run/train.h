/// A run (study/pipeline.h) that is kept in a folder, resumed from it, and reported there. What
/// `cdt train` does, for any caller.
#pragma once

#include <cdt/core/error.h>
#include <cdt/run/folder.h>
#include <cdt/study/pipeline.h>

namespace cdt::run {

using study::Hooks, study::Phase;

struct TrainedRun : study::Run {
  RunFolder folder;
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
