/// Sequences of operations that a device runs repeatedly.
///
/// For a small network on a GPU, a step takes a tenth of the time that the host needs to launch its
/// operations one by one. A sequence recorded as a CUDA graph is launched by one call.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace cdt::kernel {

/// A sequence must run the same operations on the same tensors at each call. It must not read
/// values from the device or branch on them.
using Sequence = std::function<void()>;

class Playback {
 public:
  virtual ~Playback() = default;

  /// Runs `work`, which may call play, after all work already queued on the device and before all
  /// work queued later.
  virtual void within(const std::function<void()>& work) = 0;
  /// Runs a sequence `times` times in a row; only inside within(). Each count is recorded as one
  /// graph, since the device waits some microseconds between two graphs.
  virtual void play(size_t which, int64_t times = 1) = 0;
  /// Whether a sequence could not be recorded.
  virtual bool gave_up() const { return false; }
};

/// Whether this thread is recording; synchronizing with the device then fails.
bool recording_here();

/// Device memory that recordings may keep if the caller did not ask for them.
int64_t spare_bytes(torch::Device device);

/// While one exists, no thread records: threads that use a GPU in other ways would spoil the
/// recordings of others. Existing recordings can still be played.
class NoRecordingScope {
 public:
  NoRecordingScope();
  ~NoRecordingScope();
  NoRecordingScope(const NoRecordingScope&) = delete;
  NoRecordingScope& operator=(const NoRecordingScope&) = delete;

  static bool any();
};

/// Records if `record`, LibTorch has CUDA and the device is a GPU; otherwise each play calls the
/// sequence. The results are the same to the bit. Each thread may have its own.
std::unique_ptr<Playback> make_playback(std::vector<Sequence> sequences, torch::Device device,
                                        bool record, bool warn = true);

/// Records CUDA graphs on a separate stream. The first two plays call the sequence, so that
/// libraries choose their algorithms and memory; the next records it. A sequence that cannot be
/// recorded because it waits for the device continues to be called; if `warn`, one warning says so.
/// Requires LibTorch with CUDA.
std::unique_ptr<Playback> make_graph_playback(std::vector<Sequence> sequences, torch::Device device,
                                              bool warn);
int64_t spare_bytes_of_gpu(torch::Device device);

/// While it exists, this thread is recording.
class RecordingScope {
 public:
  RecordingScope();
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

}  // namespace cdt::kernel
