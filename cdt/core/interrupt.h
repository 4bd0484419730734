/// Long work that may be ended from outside: it asks now and then.
#pragma once

#include <chrono>
#include <functional>

namespace cdt {

/// While it lives, long work on this thread calls `ask` some times a second: what that throws ends
/// the work, and comes out of it as any exception does. An inner scope stands in for an outer one.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> ask);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  friend void interruption_point();

  std::function<void()> ask_;
  std::chrono::steady_clock::time_point asked_;
  InterruptScope* outer_;
};

/// A place where work may end: asks, if there is somebody to ask who has not been asked just now.
void interruption_point();

}  // namespace cdt
