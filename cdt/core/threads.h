/// How many threads LibTorch uses.
#pragma once

#include <ATen/Parallel.h>

namespace cdt {

/// LibTorch's number of threads on this thread, for as long as it lives. (It is of a thread, and
/// the last one set is that of new threads.)
class ThreadCount {
 public:
  explicit ThreadCount(int count) { at::set_num_threads(count); }
  ~ThreadCount() { at::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

  int before() const { return before_; }

 private:
  int before_ = at::get_num_threads();
};

}  // namespace cdt
