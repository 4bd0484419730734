// Ctrl-C, SIGTERM and a closed terminal end the program. If there is state to save, the first
// signal only requests a stop. If the request is not handled in time, because a kernel or an
// eigendecomposition takes longer, the program ends as well.
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string_view>

#include "cli/command.h"

namespace cdt::cli {
namespace {

std::atomic<int> interrupted{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

/// Whether SIGHUP was ignored at the start, as by nohup; it then stays ignored.
bool hangup_ignored = false;

void on_signals(void (*handler)(int)) {
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
  if (!hangup_ignored) std::signal(SIGHUP, handler);
}

/// Files are written under temporary names first, so none is left incomplete; a resumed run
/// continues from the last checkpoint.
[[noreturn]] void end_with(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(kInterrupted);
}

void on_end(int) { end_with("cdt: interrupted\n"); }

/// alarm(2) only supports whole seconds.
constexpr itimerval kPatience{{0, 0}, {1, 500000}};
constexpr itimerval kNoTimer{};

void on_timeout(int) { end_with("cdt: interrupted in the middle of a long computation\n"); }

void on_interrupt(int) {
  interrupted = 1;
  on_signals(on_end);
  std::signal(SIGALRM, on_timeout);
  ::setitimer(ITIMER_REAL, &kPatience, nullptr);
}

}  // namespace

void end_on_signals() {
  hangup_ignored = std::signal(SIGHUP, SIG_IGN) == SIG_IGN;
  on_signals(on_end);
}

InterruptScope::InterruptScope() {
  interrupted = 0;
  on_signals(on_interrupt);
}

InterruptScope::~InterruptScope() {
  on_signals(on_end);
  acknowledge();
}

bool InterruptScope::requested() { return interrupted != 0; }

void InterruptScope::acknowledge() { ::setitimer(ITIMER_REAL, &kNoTimer, nullptr); }

}  // namespace cdt::cli
