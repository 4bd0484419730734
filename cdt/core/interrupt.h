/// Interruption of long computations from outside, by polling.
#pragma once

#include <torch/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace cdt {

/// While it exists, long computations on this thread call `ask` several times a second. An
/// exception that `ask` throws ends the computation and propagates. An inner scope replaces an
/// outer one.
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

/// Polls the current scope, if there is one and it was not polled within the last 50 ms.
void interruption_point();

/// The function that this thread polls, for the scopes of its worker threads; empty if there is
/// none. Several threads may then call it concurrently.
std::function<void()> interruption_question();

/// Runs work without interruption points on another thread, with this thread's number of LibTorch
/// threads, while this thread polls. After an interruption the work may continue for a while, so it
/// must own all that it uses. Without a scope it runs on this thread.
void run_aside(std::function<void()> work);

/// Joins threads of interrupted work. Call it before objects that they use are destroyed, at
/// process exit.
void join_abandoned();

/// Returns `work()`, one LAPACK call that decomposes a matrix [n, n]. Large CPU matrices are
/// decomposed on another thread (run_aside); GPU work stays on this thread and its stream.
template <class Work>
auto decompose_aside(const torch::Tensor& matrix, Work work) {
  constexpr int64_t kLong = 400;
  if (matrix.dim() == 0 || matrix.size(0) < kLong || !matrix.device().is_cpu()) return work();
  const auto result = std::make_shared<std::optional<decltype(work())>>();
  run_aside([result, work = std::move(work)] { result->emplace(work()); });
  return std::move(**result);
}

}  // namespace cdt
