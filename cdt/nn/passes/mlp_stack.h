/// Trains several fully connected networks of one shape together, by batched products.
#pragma once

#include <cdt/kernel/step_engine.h>
#include <cdt/nn/mlp.h>

#include <optional>
#include <span>

namespace cdt::nn {

/// Stacks K networks, so that their steps are products of K matrices each; one small network leaves
/// most of a GPU idle. The parameters are copies; the caller copies them in and out. A network with
/// non-finite numbers does not affect the others. Empty unless all are MLPs of one shape with ReLU
/// or tanh, the same scaling, dtype and device, and all trainable.
std::optional<kernel::Stack> make_stack(std::span<const Network> networks);

}  // namespace cdt::nn
