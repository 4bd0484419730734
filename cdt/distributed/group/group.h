/// Ranks based on c10d, LibTorch's library for distributed processes: Gloo on CPUs, NCCL on GPUs.
#pragma once

#include <cdt/core/error.h>
#include <cdt/distributed/group/place.h>
#include <cdt/train/ranks.h>

#include <chrono>

namespace cdt::distributed {

struct GroupOptions {
  /// A rank without a sign of life for this long ends the run on all ranks.
  std::chrono::milliseconds silence{60000};
  /// Time limits for all ranks to arrive, and for an exchange with a rank that is alive but does
  /// not take part.
  std::chrono::milliseconds arrival{300000};
  std::chrono::milliseconds exchange{1800000};
  /// Device of the computations: Gloo transfers tensors between CPUs, NCCL between GPUs.
  torch::Device device = torch::kCPU;
};

/// Whether the build has NCCL.
bool has_nccl();

/// If a rank dies, stops or fails, all others get an IoError that names it, from the current
/// exchange or the next.
class Group : public train::Ranks {
 public:
  /// Waits for all ranks.
  /// @throws IoError, naming the missing rank, if one does not arrive in time.
  /// @throws InvalidArgument if the build has no backend for the device, or as gpu_of.
  explicit Group(const Place& place, const GroupOptions& options = {});
  ~Group() override;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int64_t rank() const override;
  int64_t size() const override;
  /// With Gloo's ring each part of the tensor is added in a fixed order of the ranks, by one rank;
  /// NCCL is also deterministic.
  torch::Tensor sum(const torch::Tensor& part) const override;
  torch::Tensor gather(const torch::Tensor& rows) const override;
  using train::Ranks::sum;

  /// Tells the others why this rank ends early.
  void fail(const std::string& why) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cdt::distributed
