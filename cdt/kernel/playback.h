/// Sequences of operations that a device runs again and again.
///
/// A small network's step on a GPU takes a tenth of the time that the host needs to ask for its
/// operations one by one. Recorded as a CUDA graph, a sequence is asked for by one call.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace cdt::kernel {

/// Each sequence is the same operations whenever it is called: on the same tensors, reading no
/// numbers of the device, branching on none.
using Sequence = std::function<void()>;

class Playback {
 public:
  virtual ~Playback() = default;

  /// Does `work`, which may play: after all that the device was asked for before, and before all
  /// that it is asked for later.
  virtual void within(const std::function<void()>& work) = 0;
  /// Runs a sequence this many times in a row; only within. A number of times is recorded as a
  /// whole: the device waits some microseconds between two recordings.
  virtual void play(size_t which, int64_t times = 1) = 0;
  /// Whether a sequence could not be recorded.
  virtual bool gave_up() const { return false; }
};

/// Whether this thread is recording: a wait for the device fails then.
bool recording_here();

/// What may be kept of a device's memory by recordings that were not asked for.
int64_t spare_bytes(torch::Device device);

/// While one lives, nothing is recorded anywhere: threads that use a GPU in other ways would spoil
/// the recordings of others. What has been recorded is played on.
class NoRecordingScope {
 public:
  NoRecordingScope();
  ~NoRecordingScope();
  NoRecordingScope(const NoRecordingScope&) = delete;
  NoRecordingScope& operator=(const NoRecordingScope&) = delete;

  static bool any();
};

/// Recorded if `record`, LibTorch has CUDA and the device is a GPU; else each play calls the
/// sequence. To the same bits. Threads may each have their own.
std::unique_ptr<Playback> make_playback(std::vector<Sequence> sequences, torch::Device device,
                                        bool record, bool warn = true);

/// By CUDA graphs, on a stream of its own: the first two times the sequence is called, so that
/// libraries find their algorithms and memory, then recorded. A sequence that cannot be recorded,
/// for it waits for the device, is called on; one warning says so, if `warn`. Only where LibTorch
/// has CUDA.
std::unique_ptr<Playback> make_graph_playback(std::vector<Sequence> sequences, torch::Device device,
                                              bool warn);
int64_t spare_bytes_of_gpu(torch::Device device);

/// While it lives, this thread is recording.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

}  // namespace cdt::kernel
