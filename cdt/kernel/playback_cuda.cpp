// Sequences as CUDA graphs; compiled if LibTorch has CUDA.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cdt/core/machine/streams.h>
#include <cdt/kernel/playback.h>

#include <map>
#include <mutex>

namespace cdt::kernel {
namespace {

/// Stream number (core/machine/streams.h).
constexpr size_t kSequences = 0;
/// Calls before a sequence is recorded.
constexpr int kRehearsals = 2;

/// Only one thread records at a time, since libraries may create shared handles and memory.
std::mutex& recording() {
  static std::mutex mutex;
  return mutex;
}

class GraphPlayback : public Playback {
 public:
  GraphPlayback(std::vector<Sequence> sequences, torch::Device device, bool warn)
      : stream_(thread_stream(device, kSequences)), warn_(warn) {
    for (Sequence& sequence : sequences) {
      parts_.push_back({std::move(sequence), 0, at::cuda::graph_pool_handle(), {}});
    }
  }

  void within(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream outside = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    follow(stream_, outside);
    try {
      const c10::cuda::CUDAStreamGuard inside(stream_);
      work();
    } catch (...) {
      stream_.synchronize();
      throw;
    }
    follow(outside, stream_);
  }

  void play(size_t which, int64_t times) override {
    Part& part = parts_.at(which);
    for (; times > 0 && part.rehearsals < kRehearsals; --times, ++part.rehearsals) part.sequence();
    if (times == 0) return;
    auto graph = part.graphs.find(times);
    if (graph == part.graphs.end() && records_ && record(part, times)) {
      graph = part.graphs.find(times);
    }
    if (graph != part.graphs.end()) return graph->second->replay();
    for (; times > 0; --times) part.sequence();
  }

  bool gave_up() const override { return !records_; }

 private:
  struct Part {
    Sequence sequence;
    int rehearsals = 0;
    at::cuda::MempoolId_t pool;  ///< shared by its graphs, which never run concurrently
    std::map<int64_t, std::unique_ptr<at::cuda::CUDAGraph>> graphs;  ///< by repeat count
  };

  bool record(Part& part, int64_t times) {
    const std::lock_guard alone(recording());
    const RecordingScope scope;
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    try {
      // Other threads may use other streams meanwhile.
      graph->capture_begin(part.pool, cudaStreamCaptureModeThreadLocal);
      for (int64_t k = 0; k < times; ++k) part.sequence();
      graph->capture_end();
      part.graphs[times] = std::move(graph);
      return true;
    } catch (const c10::Error& error) {
      records_ = false;
      abandon(*graph, part.pool);
      if (warn_) {
        TORCH_WARN_ONCE("work that recurs is not recorded as a CUDA graph, so it is slower: ",
                        error.what_without_backtrace());
      }
      return false;
    } catch (...) {
      abandon(*graph, part.pool);
      throw;
    }
  }

  /// Restores the stream and the memory after a failed recording.
  void abandon(at::cuda::CUDAGraph& graph, const at::cuda::MempoolId_t& pool) {
    try {
      graph.capture_end();
    } catch (const c10::Error&) {  // capture was aborted and still holds its memory
      try {
        c10::cuda::CUDACachingAllocator::endAllocateToPool(stream_.device_index(), pool);
      } catch (const c10::Error&) {  // already released
      }
    }
    (void)cudaGetLastError();
  }

  c10::cuda::CUDAStream stream_;
  bool warn_;
  std::vector<Part> parts_;
  bool records_ = true;
};

}  // namespace

std::unique_ptr<Playback> make_graph_playback(std::vector<Sequence> sequences, torch::Device device,
                                              bool warn) {
  return std::make_unique<GraphPlayback>(std::move(sequences), device, warn);
}

int64_t spare_bytes_of_gpu(torch::Device device) {
  constexpr size_t kShare = 16;
  const size_t all = at::cuda::getDeviceProperties(device.index())->totalGlobalMem;
  return static_cast<int64_t>(all / kShare);
}

}  // namespace cdt::kernel
