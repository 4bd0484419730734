/// Gradient steps of networks: without LibTorch's graph where there is a faster pass, else by it.
#pragma once

#include <cdt/kernel/step_engine.h>
#include <cdt/nn/network.h>

namespace cdt::nn {

/// An engine for a network: passes without the graph on samples that they take, a ReLU network's on
/// the CPU (descent_pass.h) and elsewhere (operator_pass.h), and those of networks of convolutions
/// on a GPU (picture_pass.h); the graph for all others, and for gradients. Its passes are
/// repeatable.
std::unique_ptr<kernel::StepEngine> make_engine(const Network& network);

}  // namespace cdt::nn
