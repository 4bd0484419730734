#include <cdt/core/interrupt.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace cdt {
namespace {

struct Ended : std::runtime_error {
  Ended() : std::runtime_error("ended") {}
};

void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

TEST(InterruptScope, AsksNowAndThen) {
  interruption_point();  // nobody to ask
  int asked = 0;
  const InterruptScope scope([&] { ++asked; });
  interruption_point();
  EXPECT_EQ(asked, 0) << "just begun";
  wait();
  interruption_point();
  interruption_point();
  EXPECT_EQ(asked, 1);
  std::thread([] {
    wait();
    interruption_point();  // the scope is of another thread
  }).join();
  EXPECT_EQ(asked, 1);
}

TEST(InterruptScope, AnInnerOneStandsIn) {
  int inner = 0;
  const InterruptScope scope([] { throw Ended(); });
  {
    const InterruptScope within([&] { ++inner; });
    wait();
    interruption_point();
  }
  EXPECT_EQ(inner, 1);
  EXPECT_THROW(interruption_point(), Ended);
}

}  // namespace
}  // namespace cdt
