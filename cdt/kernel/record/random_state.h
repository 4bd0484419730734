/// Saves and restores LibTorch's random generators.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <utility>
#include <vector>

namespace cdt::kernel {

/// States of the default generators of the CPU and a device at construction.
class RandomState {
 public:
  explicit RandomState(torch::Device device);
  void restore() const;

 private:
  std::vector<std::pair<at::Generator, torch::Tensor>> states_;
};

}  // namespace cdt::kernel
