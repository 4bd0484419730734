/// Operations of a GPU that run beside others.
#pragma once

#include <c10/core/Stream.h>
#include <torch/types.h>

#include <functional>
#include <optional>

namespace cdt {

/// A stream of this thread's own on a GPU, the same whenever it is asked for by the same number:
/// libraries keep memory for each stream that they have seen.
c10::Stream thread_stream(torch::Device device, size_t number);

/// Asks `later` to begin where `earlier` is now.
void follow(const c10::Stream& later, const c10::Stream& earlier);

/// Takes operations aside: small ones that follow from each other leave most of a GPU idle. On a
/// CPU each is done where it stands.
class Aside {
 public:
  /// Those of one number are in order with each other.
  Aside(torch::Device device, size_t number);
  /// Joins, if nobody has.
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  /// After all that was asked for so far, beside what is asked for next. The tensors that it uses
  /// must live until it is joined.
  void run(const std::function<void()>& work);
  /// What is asked for next follows what was run so far; more may be run.
  void wait();
  /// What is asked for next follows it all.
  void join();

 private:
  std::optional<c10::Stream> outside_, inside_;
  bool busy_ = false;
};

}  // namespace cdt
