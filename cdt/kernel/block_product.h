/// Products of two blocks of Jacobian factors: a block of the kernel.
#pragma once

#include <cdt/kernel/factors.h>

#include <vector>

namespace cdt::kernel {

/// Adds the product of rows [i, i + ni) of `a` and [j, j + nj) of `b` (in samples) to `theta`
/// [ni·n_L, nj·n_L], and adds weight·(v_aᵀ Θ_g v_b) for each group g to `probes`.
void add_product(const torch::Tensor& theta, const Factors& a, int64_t i, int64_t ni,
                 const Factors& b, int64_t j, int64_t nj, double weight,
                 std::vector<double>& probes);

}  // namespace cdt::kernel
