// Ctrl-C, SIGTERM or a terminal that goes away ask once, then kill.
#include <atomic>
#include <csignal>

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

void on_interrupt(int) {
  interrupted = 1;
  restore_signals();
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupted = 0;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  hangup_ignored = std::signal(SIGHUP, on_interrupt) == SIG_IGN;
  if (hangup_ignored) std::signal(SIGHUP, SIG_IGN);
}

InterruptScope::~InterruptScope() { restore_signals(); }

bool InterruptScope::requested() { return interrupted != 0; }

}  // namespace cdt::cli
