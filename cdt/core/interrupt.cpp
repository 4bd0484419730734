#include <cdt/core/interrupt.h>
#include <cdt/core/machine/threads.h>

#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace cdt {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kBetweenQuestions{50};
/// Time for work to notice that it was interrupted.
constexpr milliseconds kGrace{500};

thread_local InterruptScope* innermost = nullptr;

/// Shared by the worker and the waiting thread.
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

struct Abandoned {
  std::mutex mutex;
  std::list<std::thread> threads;

  void join() {
    const std::lock_guard lock(mutex);
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
  ~Abandoned() { join(); }
};

Abandoned& abandoned() {
  static Abandoned all;
  return all;
}

}  // namespace

InterruptScope::InterruptScope(std::function<void()> ask)
    : ask_(std::move(ask)),
      asked_(std::chrono::steady_clock::now()),
      outer_(std::exchange(innermost, this)) {}

InterruptScope::~InterruptScope() { innermost = outer_; }

void interruption_point() {
  if (innermost == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - innermost->asked_ < kBetweenQuestions) return;
  innermost->asked_ = now;
  innermost->ask_();
}

std::function<void()> interruption_question() {
  return innermost == nullptr ? std::function<void()>() : innermost->ask_;
}

void run_aside(std::function<void()> work) {
  if (innermost == nullptr) return work();
  const ThreadCount same(at::get_num_threads());  // restores the number, if the work changes it
  auto shared = std::make_shared<Shared>();
  std::thread worker([shared, threads = same.before(), work = std::move(work)]() mutable {
    std::exception_ptr failure;
    try {
      at::set_num_threads(threads);
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // releases what it owns before reporting completion
    const std::lock_guard lock(shared->mutex);
    shared->failure = failure;
    shared->over = true;
    shared->ended.notify_all();
  });
  try {
    while (!shared->wait(kBetweenQuestions)) innermost->ask_();
  } catch (...) {
    if (shared->wait(kGrace)) {
      worker.join();
    } else {
      const std::lock_guard lock(abandoned().mutex);
      abandoned().threads.push_back(std::move(worker));
    }
    throw;
  }
  worker.join();
  if (shared->failure) std::rethrow_exception(shared->failure);
}

void join_abandoned() { abandoned().join(); }

}  // namespace cdt
