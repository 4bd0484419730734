/// A site with the gradients that came back to it, and where its samples lie.
#pragma once

#include <cdt/kernel/rules/rule.h>

#include <vector>

namespace cdt::kernel {

/// The dimensions of h along which its samples may lie: the first one, T rows of each ([b·T, …]),
/// or one of their number where the rule has no objection ([T, b, …]).
std::vector<int64_t> sample_dimensions(const Site& site, int64_t samples);

/// Gradients [c, …] at h, of c outputs, as G [b, c, T, d…].
torch::Tensor by_sample(const torch::Tensor& gradients, int64_t sample_dimension, int64_t samples);

struct LiveSite {
  const Site* site = nullptr;
  int64_t sample_dimension = 0;  ///< of h
  torch::Tensor gradient;        ///< G [b, c, T, d…], h seen as [b, T, d…]

  /// Takes the samples to lie along another dimension of h.
  void lay_along(int64_t dimension);
};

/// How far the gradient at h under the weights v [b, c] is from Σ_c v_ic G_ic beyond what rounding
/// explains, for all sites, sample by sample [sites, b]: not above zero if the rows of G belong to
/// the samples. A gradient that is undefined is zero.
torch::Tensor excess_of(const std::vector<LiveSite>& sites, const torch::Tensor& v,
                        const std::vector<torch::Tensor>& under_v, double tolerance);

}  // namespace cdt::kernel
