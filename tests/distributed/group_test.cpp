// Sums and gathered rows of a group, and ranks that fail, stay away or do not go on.
#include <cdt/core/error.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "distributed/on_ranks.h"

namespace cdt::distributed {
namespace {

using test::on_ranks;
using test::outcomes_on_ranks;
using testing::Each;
using testing::HasSubstr;
using torch::Tensor;

Tensor drawn(uint64_t seed, at::IntArrayRef shape) {
  torch::manual_seed(seed);
  return torch::randn(shape, torch::kFloat64);
}

/// Of this process's sockets that listen on a port, the networks from which they can be reached;
/// "" is any.
std::vector<std::string> networks_of(int port) {
  std::vector<std::string> networks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t length = sizeof listens;
    sockaddr_in6 own{};  // the port is where sockaddr_in has it
    socklen_t own_length = sizeof own;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 ||
        listens == 0 ||
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
        ntohs(own.sin6_port) != port) {
      continue;
    }
    char name[64] = "";
    length = sizeof name;
    ::getsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, name, &length);
    networks.emplace_back(name);
  }
  return networks;
}

TEST(Meeting, IsOfThisMachineAlone) {
  const int tried = ::socket(AF_INET6, SOCK_STREAM, 0);
  const bool possible = ::setsockopt(tried, SOL_SOCKET, SO_BINDTODEVICE, "lo", 2) == 0;
  ::close(tried);
  if (!possible) GTEST_SKIP() << "this system does not close ports to others";
  const Meeting meeting;
  EXPECT_TRUE(meeting.keeps_others_out());
  EXPECT_THAT(networks_of(meeting.port()), testing::ElementsAre("lo"));
}

TEST(Group, SumsAreTheSameBitsEverywhereAndEveryTime) {
  for (const int64_t size : {1, 2, 3, 4, 8}) {
    for (const int64_t length : {1, 7, 1000, 100003}) {
      std::vector<Tensor> parts, first(static_cast<size_t>(size)), again(first);
      for (int64_t k = 0; k < size; ++k) parts.push_back(drawn(static_cast<uint64_t>(k), {length}));
      for (auto* found : {&first, &again}) {
        on_ranks(size, [&](const auto& group) {
          const auto k = static_cast<size_t>(group->rank());
          (*found)[k] = group->sum(parts[k]);
        });
      }
      const Tensor wanted = torch::stack(parts).sum(0);
      for (size_t k = 0; k < parts.size(); ++k) {
        // Another order of the same terms: rounding of some of them.
        EXPECT_LE((first[k] - wanted).abs().max().item<double>(), 1e-13) << size << ", " << length;
        EXPECT_TRUE(torch::equal(first[k], first[0])) << size << ", " << length;
        EXPECT_TRUE(torch::equal(again[k], first[0])) << size << ", " << length;
        EXPECT_TRUE(torch::equal(parts[k], drawn(k, {length}))) << "the part itself has changed";
      }
    }
  }
}

TEST(Group, GathersUnequalRowsInOrder) {
  for (const int64_t size : {1, 2, 5}) {
    const Tensor all = torch::arange(size * (size - 1) * 3).view({-1, 2, 3});
    on_ranks(size, [&](const auto& group) {
      // k rows of rank k: the first has none.
      const int64_t k = group->rank();
      const Tensor own = all.narrow(0, k * (k - 1) / 2, k);
      EXPECT_TRUE(torch::equal(group->gather(own), all));
      const Tensor numbers = own.to(torch::kFloat32);
      EXPECT_TRUE(torch::equal(group->gather(numbers), all.to(torch::kFloat32)));
    });
  }
}

TEST(Group, AgreesOnSmallThings) {
  on_ranks(3, [](const auto& group) {
    const train::Ranks& ranks = *group;
    EXPECT_EQ(ranks.size(), 3);
    EXPECT_EQ(ranks.sum(static_cast<double>(ranks.rank())), 3);
    EXPECT_TRUE(ranks.all(true));
    EXPECT_FALSE(ranks.all(ranks.rank() != 2));
    EXPECT_EQ(ranks.first(10.0 + static_cast<double>(ranks.rank())), 10);
    ranks.require_same("colour", "red");
    // Evaluates each row once, and also where there are fewer rows than ranks.
    for (const int64_t rows : {1, 2, 3, 10}) {
      const Tensor x = torch::arange(rows).view({rows, 1});
      const Tensor found =
          train::evaluate_together(ranks, x, [](const Tensor& part) { return 2 * part; });
      EXPECT_TRUE(torch::equal(found, 2 * x)) << rows;
    }
  });
}

TEST(Group, NamesTheRankThatDiffers) {
  EXPECT_THAT(outcomes_on_ranks(3,
                                [](const auto& group) {
                                  group->require_same("data file", group->rank() == 2 ? "b" : "a");
                                }),
              Each(HasSubstr("rank 2 has another data file than rank 0")));
}

TEST(Group, OneThatFailsEndsAllAndSaysWhy) {
  for (const int64_t culprit : {0, 1, 2}) {
    const auto outcomes = outcomes_on_ranks(3, [&](const auto& group) {
      for (int step = 0; step < 5; ++step) {
        group->sum(torch::ones({10}, torch::kFloat64));
        if (group->rank() == culprit && step == 2) {
          group->fail("the disk is full");
          throw IoError("the disk is full");
        }
      }
    });
    for (int64_t k = 0; k < 3; ++k) {
      EXPECT_THAT(outcomes[static_cast<size_t>(k)],
                  k == culprit ? std::string("the disk is full")
                               : c10::str("rank ", culprit, " has failed: the disk is full"));
    }
  }
}

TEST(Group, NamesTheRankThatDoesNotCome) {
  const Meeting meeting;
  GroupOptions options;
  options.arrival = std::chrono::milliseconds(1500);
  const auto arrive = [&] {
    const Group group(Place{0, 2, "127.0.0.1", meeting.port(), true, 2}, options);
  };
  EXPECT_THAT(arrive, testing::ThrowsMessage<IoError>(HasSubstr("rank 1 of 2 has not come")));
}

TEST(Group, NamesTheRankThatIsAliveAndDoesNotGoOn) {
  GroupOptions options;
  options.exchange = std::chrono::milliseconds(1000);
  const auto outcomes = outcomes_on_ranks(
      2,
      [](const auto& group) {
        group->sum(torch::ones({1}, torch::kFloat64));
        if (group->rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(9));
        group->sum(torch::ones({1}, torch::kFloat64));
      },
      options);
  EXPECT_THAT(outcomes, Each(HasSubstr("rank 1 is alive, but does not go on")));
}

TEST(Group, SharesCoverAllRowsOnce) {
  struct Standing : train::Ranks {
    int64_t k, n;
    Standing(int64_t rank, int64_t size) : k(rank), n(size) {}
    int64_t rank() const override { return k; }
    int64_t size() const override { return n; }
  };
  for (const int64_t rows : {0, 1, 5, 8, 1000003}) {
    for (const int64_t size : {1, 2, 3, 8}) {
      int64_t next = 0;
      for (int64_t k = 0; k < size; ++k) {
        const train::Share share = share_of(Standing(k, size), rows);
        EXPECT_EQ(share.first, next);
        EXPECT_LE(std::abs(share.count * size - rows), size);
        next += share.count;
      }
      EXPECT_EQ(next, rows);
    }
  }
  EXPECT_THAT([] { training_share(Standing(0, 8), 3); },
              testing::ThrowsMessage<InvalidArgument>(
                  HasSubstr("3 training rows cannot be shared by 8 workers")));
}

/// Variables of the environment while it lives.
class Environment {
 public:
  explicit Environment(std::vector<std::pair<std::string, std::string>> values)
      : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

TEST(Place, HasAnAddressForOthers) {
  EXPECT_EQ(own_address("127.0.0.1"), "127.0.0.1");
  EXPECT_THAT(own_address("localhost"), testing::AnyOf("127.0.0.1", "::1"));
  // The machine's own name, and one that leads nowhere: never a name, which others might not know.
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  for (const std::string& meeting : {std::string(name), std::string("nowhere.invalid")}) {
    EXPECT_THAT(own_address(meeting), testing::MatchesRegex("[0-9a-f.:]+")) << meeting;
  }
}

/// Who waits in Gloo for a rank that has given up would wait for half an hour.
TEST(Group, OneThatCannotConnectEndsAll) {
  if (has_nccl()) GTEST_SKIP() << "here a rank on a GPU connects";
  const Meeting meeting;
  const auto place = [&](int64_t rank) {
    return Place{rank, 2, "127.0.0.1", meeting.port(), true, 2};
  };
  std::thread other([&] {
    GroupOptions on_gpu;
    on_gpu.device = torch::kCUDA;
    EXPECT_THROW(Group(place(1), on_gpu), InvalidArgument);
  });
  EXPECT_THAT([&] { Group group(place(0)); },
              testing::ThrowsMessage<IoError>(HasSubstr("rank 1 has failed: workers share rows")));
  other.join();
}

TEST(Place, IsWhatTorchrunSays) {
  EXPECT_FALSE(place_in_environment());
  {
    const Environment set(
        {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}});
    const Place place = *place_in_environment();
    EXPECT_EQ(place.rank, 3);
    EXPECT_EQ(place.size, 8);
    EXPECT_EQ(place.address, "head");
    EXPECT_EQ(place.port, 29500);
    EXPECT_FALSE(place.kept_elsewhere);
    const Environment agent({{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"LOCAL_WORLD_SIZE", "2"}});
    EXPECT_TRUE(place_in_environment()->kept_elsewhere);
    EXPECT_EQ(place_in_environment()->local_size, 2);
  }
  const auto expect_wrong = [](const std::string& rank, const std::string& size,
                               const std::string& message) {
    const Environment set({{"RANK", rank}, {"WORLD_SIZE", size}});
    EXPECT_THAT([] { place_in_environment(); },
                testing::ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  expect_wrong("2", "2", "RANK must be a whole number from 0 to 1, not '2'");
  expect_wrong("0", "two", "WORLD_SIZE must be a whole number");
  expect_wrong("0", "2", "so MASTER_PORT must be, too");
}

}  // namespace
}  // namespace cdt::distributed
