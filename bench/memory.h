/// The memory that a controller design or a kernel takes, measured in a process of its own.
#pragma once

#include <cstdint>
#include <string>

namespace cdt::bench {

/// Designs a controller for a random kernel of n rows (kernel, spectrum, gain, residual) and prints
/// the peak of resident memory beyond what a tiny design needed, in matrices of n² doubles. Returns
/// the exit code.
int print_design_memory(int64_t n);

/// Makes the kernel of a network for pictures (pictures.h) and prints the peak of the process's
/// resident memory, libraries, network and all, in GiB. Returns the exit code.
int print_kernel_memory(const std::string& architecture);

}  // namespace cdt::bench
