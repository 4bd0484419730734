/// Several fully connected networks of one shape as one, by batched products.
#pragma once

#include <cdt/kernel/step_engine.h>
#include <cdt/nn/mlp.h>

#include <optional>
#include <span>

namespace cdt::nn {

/// K networks whose steps are products of K matrices each: on a GPU one small network leaves most
/// of it idle. Their parameters are copies; whoever trains takes them there and back. A network
/// whose numbers are no longer finite does not touch those of the others. Empty unless all of them
/// are MLPs of one shape with ReLU or tanh, the same scaling, dtype and device, and all trainable.
std::optional<kernel::Stack> make_stack(std::span<const Network> networks);

}  // namespace cdt::nn
