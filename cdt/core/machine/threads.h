/// LibTorch's number of threads.
#pragma once

#include <ATen/Parallel.h>

namespace cdt {

/// Sets LibTorch's number of threads for this thread, while it exists. (The number is per thread;
/// new threads have the one set last.) Not for inner loops: changing it restarts LibTorch's thread
/// pool, whose threads spin for milliseconds before they sleep.
class ThreadCount {
 public:
  explicit ThreadCount(int count) { set(count); }
  ~ThreadCount() { set(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

  int before() const { return before_; }

 private:
  static void set(int count) {
    if (at::get_num_threads() != count) at::set_num_threads(count);
  }

  int before_ = at::get_num_threads();
};

}  // namespace cdt
