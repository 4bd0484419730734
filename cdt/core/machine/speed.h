/// Timing, and the matrix-product rate of this machine.
#pragma once

#include <torch/types.h>

#include <chrono>

namespace cdt {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start);

/// GFLOP/s of square matrix products, measured for at least `seconds` with this thread's number of
/// threads, under the current load.
double gemm_rate(torch::ScalarType dtype, torch::Device device, double seconds);

}  // namespace cdt
