/// A kernel with its outputs and dtype, so that callers need not repeat shape and precision.
#pragma once

#include <cdt/core/tolerance.h>
#include <cdt/dynamics/modes.h>

#include <concepts>

namespace cdt::dynamics {

/// kernel::Ntk, or a type with its fields: Θ [n, n], the outputs [r, n_L] and the network's dtype.
template <class K>
concept KernelResult = requires(const K& kernel) {
  { kernel.theta } -> std::convertible_to<torch::Tensor>;
  { kernel.outputs } -> std::convertible_to<torch::Tensor>;
  { kernel.network_dtype } -> std::convertible_to<torch::ScalarType>;
};

/// Modes of the kernel; null modes as the network's precision determines them.
template <KernelResult K>
Modes decompose(const K& kernel) {
  return decompose(kernel.theta, tol::rank_of_computed(kernel.theta.size(0), kernel.network_dtype));
}

}  // namespace cdt::dynamics
