/// Measures the memory that LibTorch's allocator provides during some work.
#pragma once

#include <c10/core/Allocator.h>
#include <torch/types.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>

namespace cdt::test {

/// Counts the bytes of CPU tensors in use on this thread.
class MemoryCounter : public c10::MemoryReportingInfoBase {
 public:
#if TORCH_VERSION_MAJOR >= 2
  using Total = size_t;
#else
  using Total = int64_t;
#endif
  void reportMemoryUsage(void* /*place*/, int64_t bytes, Total /*allocated*/, Total /*reserved*/,
                         c10::Device /*device*/) override {
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t now_ = 0;
  int64_t peak_ = 0;
};

/// The peak memory in use while `work` ran, beyond that in use before.
template <class Work>
int64_t peak_of(const Work& work) {
  const auto counter = std::make_shared<MemoryCounter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
  work();
  return counter->peak();
}

}  // namespace cdt::test
