/// Several ranks in one process, a thread each.
#pragma once

#include <cdt/distributed/group/group.h>

#include <functional>
#include <thread>
#include <vector>

namespace cdt::test {

/// What each rank throws, in words; empty where it comes to its end.
inline std::vector<std::string> outcomes_on_ranks(
    int64_t count, const std::function<void(std::shared_ptr<const distributed::Group>)>& work,
    const distributed::GroupOptions& options = {}) {
  const distributed::Meeting meeting;
  std::vector<std::string> outcomes(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int64_t k = 0; k < count; ++k) {
    threads.emplace_back([&, k] {
      try {
        work(std::make_shared<distributed::Group>(
            distributed::Place{k, count, "127.0.0.1", meeting.port(), true, count, k,
                               meeting.secret()},
            options));
      } catch (const std::exception& error) {
        outcomes[static_cast<size_t>(k)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// The same, of ranks that must come to their end.
inline void on_ranks(int64_t count,
                     const std::function<void(std::shared_ptr<const distributed::Group>)>& work) {
  for (const std::string& outcome : outcomes_on_ranks(count, work)) EXPECT_EQ(outcome, "");
}

/// Rows of a rank: the later it is, the more.
inline train::Share unequal_share(const train::Ranks& ranks, int64_t rows) {
  const auto before = [&](int64_t k) {
    return rows * k * (k + 1) / (ranks.size() * (ranks.size() + 1));
  };
  return {before(ranks.rank()), before(ranks.rank() + 1) - before(ranks.rank())};
}

}  // namespace cdt::test
