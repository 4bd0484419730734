#include <cdt/kernel/playback.h>

#include <atomic>

namespace cdt::kernel {
namespace {

std::atomic<int64_t> scopes_without_recording = 0;
thread_local bool recording_in_this_thread = false;

class CalledPlayback : public Playback {
 public:
  explicit CalledPlayback(std::vector<Sequence> sequences) : sequences_(std::move(sequences)) {}

  void within(const std::function<void()>& work) override { work(); }
  void play(size_t which, int64_t times) override {
    for (int64_t k = 0; k < times; ++k) sequences_.at(which)();
  }

 private:
  std::vector<Sequence> sequences_;
};

}  // namespace

NoRecordingScope::NoRecordingScope() { ++scopes_without_recording; }
NoRecordingScope::~NoRecordingScope() { --scopes_without_recording; }
bool NoRecordingScope::any() { return scopes_without_recording > 0; }

RecordingScope::RecordingScope() { recording_in_this_thread = true; }
RecordingScope::~RecordingScope() { recording_in_this_thread = false; }
bool recording_here() { return recording_in_this_thread; }

int64_t spare_bytes([[maybe_unused]] torch::Device device) {
#ifdef CDT_CUDA
  if (device.is_cuda()) return spare_bytes_of_gpu(device);
#endif
  return 0;
}

std::unique_ptr<Playback> make_playback(std::vector<Sequence> sequences,
                                        [[maybe_unused]] torch::Device device,
                                        [[maybe_unused]] bool record, [[maybe_unused]] bool warn) {
#ifdef CDT_CUDA
  if (record && device.is_cuda() && !NoRecordingScope::any())
    return make_graph_playback(std::move(sequences), device, warn);
#endif
  return std::make_unique<CalledPlayback>(std::move(sequences));
}

}  // namespace cdt::kernel
