/// Gradient steps of networks: without LibTorch's graph where there is a faster pass, else by it.
#pragma once

#include <cdt/kernel/step_engine.h>
#include <cdt/nn/network.h>

namespace cdt::nn {

/// An engine for a network: descent passes (descent_pass.h) on samples that they take, a ReLU
/// network's on the CPU; the graph for all others, and for gradients.
std::unique_ptr<kernel::StepEngine> make_engine(const Network& network);

}  // namespace cdt::nn
