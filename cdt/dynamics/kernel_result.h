/// A kernel together with what was found with it, so that callers need not repeat its shape and
/// precision.
#pragma once

#include <cdt/core/tolerance.h>
#include <cdt/dynamics/modes.h>

#include <concepts>

namespace cdt::dynamics {

/// kernel::Ntk, or whatever has its fields: Θ [n, n], the outputs [r, n_L] and the network's dtype.
template <class K>
concept KernelResult = requires(const K& kernel) {
  { kernel.theta } -> std::convertible_to<torch::Tensor>;
  { kernel.outputs } -> std::convertible_to<torch::Tensor>;
  { kernel.network_dtype } -> std::convertible_to<torch::ScalarType>;
};

/// Its modes, with the null ones that the network's precision lets one tell.
template <KernelResult K>
Modes decompose(const K& kernel) {
  return decompose(kernel.theta, tol::rank_of_computed(kernel.theta.size(0), kernel.network_dtype));
}

}  // namespace cdt::dynamics
