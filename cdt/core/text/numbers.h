/// Copies numbers of a tensor to the host.
#pragma once

#include <torch/types.h>

#include <vector>

namespace cdt {

/// The entries, row by row, with one read from the device.
inline std::vector<double> to_vector(const torch::Tensor& values) {
  const torch::Tensor flat = values.to(torch::kCPU, torch::kFloat64).contiguous().reshape({-1});
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

}  // namespace cdt
