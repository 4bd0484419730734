/// Long work of the library on a thread of its own, so that Ctrl-C is seen while it lasts.
#pragma once

#include "model.h"
// Python first, as its headers want it

#include <atomic>
#include <functional>
#include <memory>

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

/// What `work()` returns, which works on [n, n] matrices on this device. Called with the lock of
/// the interpreter. The work must own all that it uses, and touch nothing of Python.
template <class Work>
auto decompose_interruptibly(const torch::Tensor& matrix, Work work) {
  const Unlocked working;
  return decompose_aside(matrix, std::move(work));
}

}  // namespace cdt::python
#pragma GCC visibility pop
