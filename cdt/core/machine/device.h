/// Preparation of devices.
#pragma once

#include <torch/types.h>

namespace cdt {

/// Initializes a GPU, including LibTorch's autograd thread, which warns about a missing context if
/// its first operation is a matrix product. Makes cuDNN deterministic, so that the same run gives
/// the same bits. Does nothing on a CPU.
void prepare_device(torch::Device device);

}  // namespace cdt
