/// A GPU's libraries load and set themselves up at their first use, which takes the time of many
/// points: it is done beside reading and encoding instead.
#pragma once

#include <cdt/study/options.h>
#include <cdt/train/options.h>

#include <thread>

namespace cdt::study {

/// While a table is read, some points of a path on rows that are made up, of about the shape that
/// a training's will have: context, libraries and the kernels' code are there then. On a thread of
/// its own. It draws from no generator but its own and touches nothing of the run's; what goes
/// wrong in it is not said, since whoever does it in earnest will find it, too. Nothing on a CPU,
/// nor of other methods than the path.
class Rehearsal {
 public:
  Rehearsal(torch::Device device, const train::TrainOptions& training,
            const NetworkOptions& network);
  ~Rehearsal() { wait(); }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

  /// Until it is over.
  void wait();

 private:
  std::thread thread_;
};

/// What it does, on this thread and on any device.
/// @throws as training does.
void rehearse(torch::Device device, const train::TrainOptions& training,
              const NetworkOptions& network);

}  // namespace cdt::study
