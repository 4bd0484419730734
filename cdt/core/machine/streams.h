/// GPU operations that run concurrently with others.
#pragma once

#include <c10/core/Stream.h>
#include <torch/types.h>

#include <functional>
#include <optional>

namespace cdt {

/// A stream of this thread on a GPU, the same for each `number`: libraries keep memory for every
/// stream they have used.
c10::Stream thread_stream(torch::Device device, size_t number);

/// Makes `later` wait for the work queued on `earlier` so far.
void follow(const c10::Stream& later, const c10::Stream& earlier);

/// Runs operations on another stream, since small dependent operations leave most of a GPU idle. On
/// a CPU they run immediately.
class Aside {
 public:
  /// Work with the same number runs in order.
  Aside(torch::Device device, size_t number);
  /// Joins, unless join() was called.
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  /// Runs after all work queued so far, concurrently with later work. The tensors that it uses must
  /// live until it is joined.
  void run(const std::function<void()>& work);
  /// Later work waits for what was run so far; more may be run.
  void wait();
  /// Later work waits for everything.
  void join();

 private:
  std::optional<c10::Stream> outside_, inside_;
  bool busy_ = false;
};

}  // namespace cdt
