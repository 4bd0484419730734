/// How many threads LibTorch uses.
#pragma once

#include <ATen/Parallel.h>

namespace cdt {

/// LibTorch's number of threads on this thread, for as long as it lives. (It is of a thread, and
/// the last one set is that of new threads.) Not for inner loops: another number makes LibTorch
/// start a pool of threads anew, which spin for milliseconds before they sleep.
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
