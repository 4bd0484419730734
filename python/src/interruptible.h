/// Long work of the library on a thread of its own, so that Ctrl-C is seen while it lasts.
#pragma once

#include "model.h"
// Python first, as its headers want it

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#pragma GCC visibility push(hidden)
namespace cdt::python {

/// Whether whoever started the work still wants it.
using StopFlag = std::shared_ptr<std::atomic<bool>>;

/// Runs `work` with so many threads of LibTorch, and waits for it without the lock of the
/// interpreter. Several times a second `look` is called with the lock, and signals are seen; if one
/// of them raises, `stop` becomes true, and the error comes out within a second even if the work
/// takes longer to notice: it then ends by itself, so it must own all that it uses, and must touch
/// nothing of Python.
void run_interruptibly(const StopFlag& stop, int threads, std::function<void()> work,
                       const std::function<void()>& look = {});

/// From this size on, decompositions of [n, n] matrices take longer than a thread.
constexpr int64_t kLongDecomposition = 400;

/// What `work()` returns, which decomposes [n, n] matrices on this device: one call of LAPACK that
/// lasts is no reason to keep a signal waiting. Called with the lock of the interpreter. The work
/// must own all that it uses, and touch nothing of Python. On a GPU it stays on this thread, whose
/// stream it wants.
template <class Work>
auto decompose_interruptibly(int64_t n, torch::Device device, Work work) {
  if (n < kLongDecomposition || !device.is_cpu()) {
    const Unlocked working;
    return work();
  }
  auto result = std::make_shared<std::optional<decltype(work())>>();
  run_interruptibly(std::make_shared<std::atomic<bool>>(false), at::get_num_threads(),
                    [result, work = std::move(work)] { result->emplace(work()); });
  return std::move(**result);
}

/// Waits for work that nobody wants any more: at the end of the interpreter.
void join_abandoned();

}  // namespace cdt::python
#pragma GCC visibility pop
