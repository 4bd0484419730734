// Sums and gathered rows of a group, and ranks that fail, stay away or do not go on.
#include <cdt/core/error.h>
#include <cdt/distributed/store/message.h>
#include <cdt/distributed/store/store.h>
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

/// Of this process's sockets that listen on a port, whether all are of the machine itself.
bool listens_to_itself_alone(int port) {
  int found = 0, outside = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t length = sizeof listens;
    sockaddr_storage own{};
    socklen_t own_length = sizeof own;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) != 0 ||
        listens == 0 ||
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &own_length) != 0) {
      continue;
    }
    const auto& address = reinterpret_cast<const sockaddr_in&>(own);  // the port is at one place
    if (ntohs(address.sin_port) != port) continue;
    ++found;
    outside += own.ss_family != AF_INET || ntohl(address.sin_addr.s_addr) != INADDR_LOOPBACK;
  }
  return found == 1 && outside == 0;
}

/// Somebody on this machine who has found the port.
class Stranger {
 public:
  Stranger(int port, const std::string& says) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(static_cast<uint16_t>(port));
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&there), sizeof there), 0);
    EXPECT_EQ(::send(socket_, says.data(), says.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(says.size()));
  }
  ~Stranger() { ::close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  /// Waits for it.
  bool is_shut_out() const {
    char byte = 0;
    return ::recv(socket_, &byte, 1, 0) <= 0;
  }

 private:
  int socket_;
};

TEST(Meeting, IsOfThisMachineAlone) {
  const Meeting meeting;
  EXPECT_TRUE(listens_to_itself_alone(meeting.port()));
}

TEST(Meeting, NoStrangerKeepsItOrSetsItsVerdict) {
  Tensor sum;
  {
    const Meeting meeting;
    // Nothing; a long length, in both orders of its bytes; a part of a message; c10d's questions.
    const Stranger silent(meeting.port(), "");
    const Stranger half(meeting.port(), std::string("\x40\0\0\0\x20\0", 6));
    const Stranger loud(meeting.port(), std::string(8, '\xff'));
    const Stranger wide(meeting.port(), std::string("\0\0\0\x7f\xff\xff\xff", 7));
    const Stranger torch_like(meeting.port(), std::string("\0\x0b\0\0\0\0\0\0\0cdt/verdict", 20));
    // Our own questions, without the secret and with another one.
    const Stranger bold(meeting.port(), message_of({"set", "cdt/verdict", "rank 0 has failed"}));
    const Stranger guesses(meeting.port(), message_of({std::string(meeting.secret().size(), '0')}));
    for (const Stranger* each : {&loud, &wide, &bold, &guesses}) {
      EXPECT_TRUE(each->is_shut_out());
    }
    std::vector<std::thread> ranks;
    for (int64_t k = 0; k < 2; ++k) {
      ranks.emplace_back([&, k] {
        const Group group(Place{k, 2, "127.0.0.1", meeting.port(), true, 2, {}, meeting.secret()});
        const Tensor own = group.sum(torch::full({3}, k + 1, torch::kFloat64));
        if (k == 0) sum = own;
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }  // which waits for nobody
  EXPECT_TRUE(torch::equal(sum, torch::full({3}, 3, torch::kFloat64)));
}

TEST(Meeting, RanksNeedItsSecret) {
  const Meeting meeting;
  for (const std::string secret : {"", "0123456789abcdef0123456789abcdef"}) {
    const Place place{0, 1, "127.0.0.1", meeting.port(), true, 1, {}, secret};
    EXPECT_THAT([&] { Group group(place); },
                testing::ThrowsMessage<IoError>(HasSubstr("CDT_SECRET must be the same")));
  }
  EXPECT_NE(Meeting().secret(), meeting.secret());
  EXPECT_EQ(meeting.secret().size(), 32U);
}

TEST(RemoteStore, KeepsWhatIsToldAndSaysWhatItKeeps) {
  const StoreServer server(0, true, "s");
  RemoteStore one("127.0.0.1", server.port(), "s", std::chrono::seconds(5));
  RemoteStore other("localhost", server.port(), "s", std::chrono::seconds(5));
  using Bytes = RemoteStore::Bytes;
  const Bytes bytes{0, 255, 10, 0}, none;
  one.set("a", bytes);
  EXPECT_EQ(other.get("a"), bytes);
  one.set("empty", none);
  EXPECT_EQ(other.get("empty"), none);
  EXPECT_EQ(one.add("n", 5), 5);
  EXPECT_EQ(other.add("n", -7), -2);
  EXPECT_TRUE(one.check({"a", "n"}));
  EXPECT_FALSE(one.check({"a", "b"}));
  EXPECT_EQ(one.compareSet("v", none, bytes), bytes);
  EXPECT_EQ(other.compareSet("v", none, Bytes{1}), bytes);
  EXPECT_EQ(other.compareSet("v", bytes, Bytes{1}), Bytes{1});
  EXPECT_EQ(one.getNumKeys(), 4);
  EXPECT_TRUE(one.deleteKey("a"));
  EXPECT_FALSE(one.deleteKey("a"));
  EXPECT_THROW(one.wait({"a"}, std::chrono::milliseconds(10)), IoError);
  const Bytes long_value(100000, 7);
  std::thread later([&] { other.set("late", long_value); });
  EXPECT_EQ(one.get("late"), long_value);
  later.join();
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
    const Group group(Place{0, 2, "127.0.0.1", meeting.port(), true, 2, {}, meeting.secret()},
                      options);
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
    return Place{rank, 2, "127.0.0.1", meeting.port(), true, 2, {}, meeting.secret()};
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
    EXPECT_TRUE(place_in_environment()->by_torch);
    EXPECT_EQ(place_in_environment()->local_size, 2);
  }
  const auto expect_wrong = [](const std::string& rank, const std::string& size,
                               const std::string& message) {
    const Environment set({{"RANK", rank}, {"WORLD_SIZE", size}});
    EXPECT_THAT([] { place_in_environment(); },
                testing::ThrowsMessage<InvalidArgument>(HasSubstr(message)));
  };
  expect_wrong("2", "2", "RANK must be a whole number from 0 to 1, got '2'");
  expect_wrong("0", "two", "WORLD_SIZE must be a whole number");
  expect_wrong("0", "2", "so MASTER_PORT must be, too");
  for (const std::string address : {"", "a b", "head\x1b[2J", "\u202ehead", "a\nb"}) {
    const Environment set(
        {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}, {"MASTER_ADDR", address}});
    EXPECT_THAT([] { place_in_environment(); },
                testing::ThrowsMessage<InvalidArgument>(testing::AllOf(
                    HasSubstr("MASTER_ADDR"), testing::Not(HasSubstr("\x1b")),
                    testing::Not(HasSubstr("\u202e")), testing::Not(HasSubstr("\n")))));
  }
}

}  // namespace
}  // namespace cdt::distributed
