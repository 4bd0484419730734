#include "interruptible.h"

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace cdt::python {
namespace py = pybind11;

namespace {

using std::chrono::milliseconds;
constexpr milliseconds kBetweenLooks{50};
/// How long the work may take to notice that it is to stop.
constexpr milliseconds kGrace{500};

struct Shared {
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::exception_ptr failure;

  bool wait(milliseconds time) {
    std::unique_lock lock(mutex);
    return ended.wait_for(lock, time, [this] { return over; });
  }
};

std::mutex abandoned_mutex;
std::list<std::thread> abandoned;

/// LibTorch's number of threads is of a thread, and the last one set is that of new threads.
class ThreadsBefore {
 public:
  ~ThreadsBefore() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

}  // namespace

void run_interruptibly(const StopFlag& stop, int threads, std::function<void()> work,
                       const std::function<void()>& look) {
  const ThreadsBefore kept;
  auto shared = std::make_shared<Shared>();
  std::thread worker([shared, threads, work = std::move(work)]() mutable {
    std::exception_ptr failure;
    try {
      at::set_num_threads(threads);
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // what it owns goes before anybody hears that it is over
    const std::lock_guard lock(shared->mutex);
    shared->failure = failure;
    shared->over = true;
    shared->ended.notify_all();
  });
  try {
    bool over = false;
    while (!over) {
      {
        const py::gil_scoped_release unlocked;
        over = shared->wait(kBetweenLooks);
      }
      if (look) look();
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  } catch (...) {
    *stop = true;
    const py::gil_scoped_release unlocked;
    if (shared->wait(kGrace)) {
      worker.join();
    } else {
      const std::lock_guard lock(abandoned_mutex);
      abandoned.push_back(std::move(worker));
    }
    throw;
  }
  {
    const py::gil_scoped_release unlocked;
    worker.join();
  }
  if (shared->failure) std::rethrow_exception(shared->failure);
}

void join_abandoned() {
  const std::lock_guard lock(abandoned_mutex);
  for (std::thread& thread : abandoned) thread.join();
  abandoned.clear();
}

}  // namespace cdt::python
