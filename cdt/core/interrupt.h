/// Long work that may be ended from outside: it asks now and then.
#pragma once

#include <torch/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

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
  friend std::function<void()> interruption_question();
  friend void run_aside(std::function<void()> work);

  std::function<void()> ask_;
  std::chrono::steady_clock::time_point asked_;
  InterruptScope* outer_;
};

/// A place where work may end: asks the scope's question, unless it was asked just now.
void interruption_point();

/// What this thread asks, for scopes of threads that work for it; empty without a scope. It may
/// then be asked by several threads at once.
std::function<void()> interruption_question();

/// Work without such places: on a thread of its own, with LibTorch's number of threads here, while
/// this thread asks. Ended, it may go on by itself for a while, so it must own all that it uses.
/// Without a scope it runs here.
void run_aside(std::function<void()> work);

/// Waits for abandoned work: before what it uses goes, at the end of a process.
void join_abandoned();

/// What `work()` returns, which decomposes a matrix [n, n] by one call of LAPACK: aside, if that
/// takes longer than a thread. On a GPU it stays on this thread, whose stream it wants.
template <class Work>
auto decompose_aside(const torch::Tensor& matrix, Work work) {
  constexpr int64_t kLong = 400;
  if (matrix.dim() == 0 || matrix.size(0) < kLong || !matrix.device().is_cpu()) return work();
  const auto result = std::make_shared<std::optional<decltype(work())>>();
  run_aside([result, work = std::move(work)] { result->emplace(work()); });
  return std::move(**result);
}

}  // namespace cdt
