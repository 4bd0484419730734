#include <cdt/core/error.h>
#include <cdt/core/text/text.h>
#include <cdt/distributed/group/place.h>
#include <cdt/distributed/store/store.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace cdt::distributed {
namespace {

constexpr int64_t kMostRanks = 100000;
constexpr int64_t kMostPort = 65535;

int64_t number_in(const char* name, int64_t least, int64_t most) {
  const char* text = std::getenv(name);
  CDT_REQUIRE(text != nullptr, "RANK and WORLD_SIZE are set, so ", name, " must be, too");
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  CDT_REQUIRE(error == std::errc() && rest == end && value >= least && value <= most, name,
              " must be a whole number from ", least, " to ", most, ", got '", text, "'");
  return value;
}

/// Validates the name, since LibTorch logs it to the terminal unchanged.
bool names_a_machine(std::string_view text) {
  constexpr size_t kLongestName = 255;
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("._-:%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kLongestName && std::ranges::all_of(text, fits);
}

bool is_set_to(const char* name, std::string_view value) {
  const char* text = std::getenv(name);
  return text != nullptr && text == value;
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
  CDT_REQUIRE(names_a_machine(address),
              "MASTER_ADDR: expected the name or the address of a machine, got '",
              printable_name(std::string_view(address).substr(0, 80)), "'");
  place.address = address;
  place.by_torch = is_set_to("TORCHELASTIC_USE_AGENT_STORE", "True");
  place.kept_elsewhere = place.by_torch || is_set_to(kStoreVariable, kStoreOfLauncher);
  if (const char* secret = std::getenv(kSecretVariable)) place.secret = secret;
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
  std::string secret = make_secret();
  StoreServer server{0, /*alone=*/true, secret};
};

Meeting::Meeting() : state_(std::make_unique<State>()) {}

Meeting::~Meeting() = default;

int Meeting::port() const { return state_->server.port(); }

const std::string& Meeting::secret() const { return state_->secret; }

}  // namespace cdt::distributed
