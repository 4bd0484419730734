/// How long things take, and how fast this machine multiplies matrices.
#pragma once

#include <torch/types.h>

#include <chrono>

namespace cdt {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start);

/// GFLOP/s of square matrix products, taken for at least `seconds` with the threads that this one
/// may use, beside whatever else runs.
double gemm_rate(torch::ScalarType dtype, torch::Device device, double seconds);

}  // namespace cdt
