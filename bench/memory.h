/// The memory that a controller design takes, measured in a process of its own.
#pragma once

#include <cstdint>

namespace cdt::bench {

/// Designs a controller for a random kernel of n rows (kernel, spectrum, gain, residual) and prints
/// the peak of resident memory beyond what a tiny design needed, in matrices of n² doubles. Returns
/// the exit code.
int print_design_memory(int64_t n);

}  // namespace cdt::bench
