/// Where a process stands among others, and where they meet.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace cdt::distributed {

/// Of the environment, beside torchrun's: who keeps the store, and what ranks say to it.
inline constexpr const char *kStoreVariable = "CDT_STORE", *kStoreOfLauncher = "launcher",
                            *kSecretVariable = "CDT_SECRET";

/// In torchrun's words.
struct Place {
  int64_t rank = 0;
  int64_t size = 1;
  std::string address = "127.0.0.1";  ///< of the store by which ranks find each other
  int port = 0;
  /// Whether another process keeps that store: torchrun, or launch. Otherwise rank 0 does.
  bool kept_elsewhere = false;
  int64_t local_size = 1;                            ///< ranks on this machine
  std::optional<int64_t> local_rank = std::nullopt;  ///< among them, if somebody has said
  std::string secret{};   ///< that all ranks share: the store shuts out who does not say it
  bool by_torch = false;  ///< the store is torchrun's, which knows no secret
};

/// The GPU of a rank, of so many on this machine: that of its number among the ranks of the
/// machine, or else of its rank, modulo their number.
/// @throws InvalidArgument if there are fewer GPUs than ranks on this machine: NCCL refuses two
///   ranks on one.
int64_t gpu_of(const Place& place, int64_t gpus);

/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of the environment, with LOCAL_WORLD_SIZE,
/// LOCAL_RANK, CDT_SECRET and TORCHELASTIC_USE_AGENT_STORE where they are set; none without RANK
/// and WORLD_SIZE.
/// @throws InvalidArgument, naming the variable, if one is missing or is no such number, or
///   MASTER_ADDR is no name or address of a machine.
std::optional<Place> place_in_environment();

/// The address of this machine by which ranks on others reach it, in numbers: where the way to the
/// meeting point leaves it. Where that is a name for this machine itself, the address of its first
/// network; 127.0.0.1 without one, or where ranks meet there.
std::string own_address(const std::string& meeting);

/// The store by which ranks on this machine find each other, kept by this process on a free port
/// as long as it lives. Other machines cannot reach it, and other users of this one do not know its
/// secret.
class Meeting {
 public:
  Meeting();
  ~Meeting();
  int port() const;
  const std::string& secret() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cdt::distributed
