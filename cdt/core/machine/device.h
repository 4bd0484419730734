/// Devices, before anything is computed on them.
#pragma once

#include <torch/types.h>

namespace cdt {

/// Makes a GPU ready: for LibTorch's own thread of derivatives too, which warns about a missing
/// context if a matrix product is the first that it asks for. From then on cuDNN takes algorithms
/// that always add up in the same order: the same run gives the same bits. Nothing to do on a CPU.
void prepare_device(torch::Device device);

}  // namespace cdt
