/// A site with its backpropagated gradients and the dimension of its samples.
#pragma once

#include <cdt/kernel/rules/rule.h>

#include <vector>

namespace cdt::kernel {

/// Dimensions of h along which samples may lie: the first, with T rows per sample ([b·T, …]), or
/// one with as many entries as samples if the rule allows it ([T, b, …]).
std::vector<int64_t> sample_dimensions(const Site& site, int64_t samples);

/// Gradients [c, …] at h, for c outputs, as G [b, c, T, d…].
torch::Tensor by_sample(const torch::Tensor& gradients, int64_t sample_dimension, int64_t samples);

struct LiveSite {
  const Site* site = nullptr;
  int64_t sample_dimension = 0;  ///< dimension of h
  torch::Tensor gradient;        ///< G [b, c, T, d…], with h as [b, T, d…]

  /// Assumes that samples lie along another dimension of h.
  void lay_along(int64_t dimension);
};

/// For all sites and samples [sites, b]: the difference between the gradient at h under the weights
/// v [b, c] and Σ_c v_ic G_ic, minus what rounding explains. Not above zero if the rows of G belong
/// to the samples. An undefined gradient is zero.
torch::Tensor excess_of(const std::vector<LiveSite>& sites, const torch::Tensor& v,
                        const std::vector<torch::Tensor>& under_v, double tolerance);

}  // namespace cdt::kernel
