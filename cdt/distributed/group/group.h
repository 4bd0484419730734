/// Ranks on c10d, LibTorch's own engine for processes that work together: Gloo on CPUs, NCCL on
/// GPUs.
#pragma once

#include <cdt/core/error.h>
#include <cdt/distributed/group/place.h>
#include <cdt/train/ranks.h>

#include <chrono>

namespace cdt::distributed {

struct GroupOptions {
  /// A rank that gives no sign of life for so long ends the run everywhere.
  std::chrono::milliseconds silence{60000};
  /// How long to wait for all ranks to come, and for one that is alive and does not go on.
  std::chrono::milliseconds arrival{300000};
  std::chrono::milliseconds exchange{1800000};
  /// Where ranks compute: tensors travel between CPUs by Gloo, between GPUs by NCCL.
  torch::Device device = torch::kCPU;
};

/// Whether the build has NCCL.
bool has_nccl();

/// Whoever of the ranks dies, stops or fails: all others get an IoError that names it, from the
/// exchange that they wait in, or the next one.
class Group : public train::Ranks {
 public:
  /// Waits for all ranks.
  /// @throws IoError, naming who is missing, if one does not come in time.
  /// @throws InvalidArgument if the build has no engine for the device, or as gpu_of.
  explicit Group(const Place& place, const GroupOptions& options = {});
  ~Group() override;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int64_t rank() const override;
  int64_t size() const override;
  /// By Gloo's ring every part of the tensor is added up in one order of the ranks, at one place;
  /// by NCCL as it does it, each time the same way.
  torch::Tensor sum(const torch::Tensor& part) const override;
  torch::Tensor gather(const torch::Tensor& rows) const override;
  using train::Ranks::sum;

  /// Tells others why this rank ends before its time.
  void fail(const std::string& why) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cdt::distributed
