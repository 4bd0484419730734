// Ctrl-C, SIGTERM or a terminal that goes away ask once, then kill; so does a question that nobody
// answers in time, because a kernel or an eigendecomposition takes longer.
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

/// Whether SIGHUP was ignored before, as by nohup; then it stays so.
bool hangup_ignored = false;

void restore_signals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (!hangup_ignored) std::signal(SIGHUP, SIG_DFL);
}

/// Seconds are too coarse for alarm(2).
constexpr itimerval kPatience{{0, 0}, {1, 500000}};
constexpr itimerval kNoTimer{};

/// Files are written under other names first, so nothing is left in halves; a resumed run goes on
/// from the last checkpoint.
void on_timeout(int) {
  constexpr std::string_view kText = "cdt: interrupted in the middle of a long computation\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(kInterrupted);
}

void on_interrupt(int) {
  interrupted = 1;
  restore_signals();
  std::signal(SIGALRM, on_timeout);
  ::setitimer(ITIMER_REAL, &kPatience, nullptr);
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupted = 0;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  hangup_ignored = std::signal(SIGHUP, on_interrupt) == SIG_IGN;
  if (hangup_ignored) std::signal(SIGHUP, SIG_IGN);
}

InterruptScope::~InterruptScope() {
  restore_signals();
  acknowledge();
}

bool InterruptScope::requested() { return interrupted != 0; }

void InterruptScope::acknowledge() { ::setitimer(ITIMER_REAL, &kNoTimer, nullptr); }

}  // namespace cdt::cli
