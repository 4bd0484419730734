#include <cdt/core/interrupt.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <memory>
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

TEST(InterruptScope, ThreadsThatWorkForItAskTheSame) {
  EXPECT_FALSE(interruption_question()) << "nobody to ask";
  const InterruptScope scope([] { throw Ended(); });
  bool ended = false;
  std::thread([&, ask = interruption_question()] {
    const InterruptScope here(ask);
    wait();
    try {
      interruption_point();
    } catch (const Ended&) {
      ended = true;
    }
  }).join();
  EXPECT_TRUE(ended);
}

TEST(InterruptScope, WorkAsideIsWaitedFor) {
  std::thread::id where;
  const auto work = [&] { where = std::this_thread::get_id(); };
  run_aside(work);
  EXPECT_EQ(where, std::this_thread::get_id()) << "nobody to ask";
  const InterruptScope scope([] {});
  run_aside(work);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_THROW(run_aside([] { throw Ended(); }), Ended);
  const auto matrix = torch::eye(450, torch::kFloat64) * 2;
  const auto [values, vectors] =
      decompose_aside(matrix, [matrix] { return torch::linalg_eigh(matrix); });
  EXPECT_TRUE(torch::equal(values, torch::full({450}, 2.0, torch::kFloat64)));
}

TEST(InterruptScope, WorkAsideCanBeLeft) {
  const auto go_on = std::make_shared<std::atomic<bool>>(false);
  const auto over = std::make_shared<std::atomic<bool>>(false);
  const int threads = at::get_num_threads();
  {
    const InterruptScope scope([] { throw Ended(); });
    EXPECT_THROW(run_aside([=] {
                   at::set_num_threads(threads + 1);
                   while (!*go_on) wait();
                   *over = true;
                 }),
                 Ended);
  }
  EXPECT_FALSE(*over);
  EXPECT_EQ(at::get_num_threads(), threads);
  *go_on = true;
  join_abandoned();
  EXPECT_TRUE(*over);
}

}  // namespace
}  // namespace cdt
