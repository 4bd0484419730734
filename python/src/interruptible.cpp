#include "interruptible.h"

namespace cdt::python {
namespace py = pybind11;

namespace {

/// Ends abandoned work; caught internally.
struct NoLongerWanted : std::exception {};

}  // namespace

void run_interruptibly(const StopFlag& stop, int threads, std::function<void()> work,
                       const std::function<void()>& look) {
  const auto ask = [&] {
    const py::gil_scoped_acquire lock;
    try {
      if (look) look();
      check_signals();
    } catch (...) {
      *stop = true;
      throw;
    }
  };
  {
    const py::gil_scoped_release unlocked;
    const InterruptScope interrupts(ask);
    run_aside([threads, stop, work = std::move(work)] {
      at::set_num_threads(threads);
      const InterruptScope wanted([stop] {
        if (*stop) throw NoLongerWanted();
      });
      work();
    });
  }
  if (look) look();
}

}  // namespace cdt::python
