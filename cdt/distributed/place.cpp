#include <cdt/core/error.h>
#include <cdt/distributed/place.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace cdt::distributed {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRanks = 100000;
constexpr int64_t kMostPort = 65535;

int64_t number_in(const char* name, int64_t least, int64_t most) {
  const char* text = std::getenv(name);
  CDT_REQUIRE(text != nullptr, "RANK and WORLD_SIZE are set, so ", name, " must be, too");
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  CDT_REQUIRE(error == std::errc() && rest == end && value >= least && value <= most, name,
              " must be a whole number from ", least, " to ", most, ", not '", text, "'");
  return value;
}

/// At which a socket of IPv4 or IPv6 listens; 0 of anything else.
int listens_at(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) return 0;
  if (listens == 0) return 0;
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) != 0) return 0;
  if (own.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
  if (own.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(own).sin6_port);
  return 0;
}

/// c10d's store listens on every network, and serves whoever comes. From now on nobody comes but
/// from this machine; false if the system does not let that be (Linux before 5.7).
bool keep_others_out(int port) {
  constexpr std::string_view kOwnNetwork = "lo";
  int64_t closed = 0;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    const int descriptor = std::stoi(entry->path().filename());
    if (listens_at(descriptor) != port) continue;
    if (::setsockopt(descriptor, SOL_SOCKET, SO_BINDTODEVICE, kOwnNetwork.data(),
                     static_cast<socklen_t>(kOwnNetwork.size())) != 0) {
      return false;
    }
    ++closed;
  }
  return !error && closed > 0;
}

}  // namespace

std::optional<Place> place_in_environment() {
  if (std::getenv("RANK") == nullptr || std::getenv("WORLD_SIZE") == nullptr) return std::nullopt;
  Place place;
  place.size = number_in("WORLD_SIZE", 1, kMostRanks);
  place.rank = number_in("RANK", 0, place.size - 1);
  if (place.size == 1) return place;
  place.port = static_cast<int>(number_in("MASTER_PORT", 1, kMostPort));
  const char* address = std::getenv("MASTER_ADDR");
  CDT_REQUIRE(address != nullptr, "RANK and WORLD_SIZE are set, so MASTER_ADDR must be, too");
  place.address = address;
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  place.kept_elsewhere = agent != nullptr && std::string_view(agent) == "True";
  if (std::getenv("LOCAL_WORLD_SIZE") != nullptr) {
    place.local_size = number_in("LOCAL_WORLD_SIZE", 1, place.size);
  }
  if (std::getenv("LOCAL_RANK") != nullptr) {
    place.local_rank = number_in("LOCAL_RANK", 0, place.size - 1);
  }
  return place;
}

int64_t gpu_of(const Place& place, int64_t gpus) {
  CDT_REQUIRE(gpus > 0, "workers on GPUs need one each, and LibTorch finds none on this machine");
  const int64_t own = place.local_rank.value_or(place.rank % gpus);
  CDT_REQUIRE(place.local_size <= gpus && own < gpus, "workers need a GPU each: rank ", place.rank,
              " is the ", own + 1, ". of ", place.local_size, " on this machine, which has ", gpus,
              "; NCCL refuses two ranks on one GPU. Fewer workers, or --device cpu");
  return own;
}

struct Meeting::State {
  c10::intrusive_ptr<c10d::TCPStore> store;
  bool own = false;
};

Meeting::Meeting() : state_(std::make_unique<State>()) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  state_->store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  state_->own = keep_others_out(port());
}

Meeting::~Meeting() = default;

int Meeting::port() const { return state_->store->getPort(); }

bool Meeting::keeps_others_out() const { return state_->own; }

}  // namespace cdt::distributed
