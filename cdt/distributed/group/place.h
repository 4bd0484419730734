/// The rank of a process, and where ranks meet.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace cdt::distributed {

/// Environment variables, besides torchrun's: which process keeps the store, and its secret.
inline constexpr const char *kStoreVariable = "CDT_STORE", *kStoreOfLauncher = "launcher",
                            *kSecretVariable = "CDT_SECRET";

/// Named as in torchrun.
struct Place {
  int64_t rank = 0;
  int64_t size = 1;
  std::string address = "127.0.0.1";  ///< address of the store where ranks meet
  int port = 0;
  /// Whether another process keeps that store: torchrun, or launch. Otherwise rank 0 does.
  bool kept_elsewhere = false;
  int64_t local_size = 1;                            ///< ranks on this machine
  std::optional<int64_t> local_rank = std::nullopt;  ///< among them, if given
  std::string secret{};   ///< shared by all ranks: the store rejects clients without it
  bool by_torch = false;  ///< the store is torchrun's, which has no secret
};

/// The GPU of a rank, of `gpus` on this machine: its local rank, or else its rank, modulo their
/// number.
/// @throws InvalidArgument if there are fewer GPUs than ranks on this machine, since NCCL does not
///   allow two ranks on one.
int64_t gpu_of(const Place& place, int64_t gpus);

/// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and LOCAL_WORLD_SIZE, LOCAL_RANK,
/// CDT_SECRET and TORCHELASTIC_USE_AGENT_STORE if set; none without RANK and WORLD_SIZE.
/// @throws InvalidArgument, naming the variable, if one is missing or invalid, or MASTER_ADDR is
///   not a name or address of a machine.
std::optional<Place> place_in_environment();

/// The numeric address at which ranks on other machines reach this one: that of the route to the
/// meeting point. If that is a name of this machine itself, the address of its first network;
/// 127.0.0.1 without one, or if ranks meet there.
std::string own_address(const std::string& meeting);

/// A store for ranks on this machine, kept by this process on a free port while it exists. Other
/// machines cannot reach it, and other users do not know its secret.
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
