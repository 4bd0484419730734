#include <cdt/core/interrupt.h>

#include <utility>

namespace cdt {
namespace {

constexpr std::chrono::milliseconds kBetweenQuestions{50};
thread_local InterruptScope* innermost = nullptr;

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

}  // namespace cdt
