/// What LibTorch's own generators will draw next.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <utility>
#include <vector>

namespace cdt::kernel {

/// The states of the default generators, of the CPU and of a device, as they were when this was
/// made.
class RandomState {
 public:
  explicit RandomState(torch::Device device);
  void restore() const;

 private:
  std::vector<std::pair<at::Generator, torch::Tensor>> states_;
};

}  // namespace cdt::kernel
