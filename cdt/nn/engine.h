/// Step engines for networks: specialized passes where they are faster, LibTorch's graph otherwise.
#pragma once

#include <cdt/kernel/step_engine.h>
#include <cdt/nn/network.h>

namespace cdt::nn {

/// An engine for a network. Specialized passes: ReLU networks on the CPU (descent_pass.h) and
/// elsewhere (operator_pass.h), for samples that they accept, and convolutional networks on a GPU
/// (picture_pass.h). The graph computes everything else, and gradients. Passes are repeatable.
std::unique_ptr<kernel::StepEngine> make_engine(const Network& network);

}  // namespace cdt::nn
