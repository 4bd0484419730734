/// The objective of one linearization as a sum of squares.
///
/// Residuals are Sᵀŷ + …, with one block S_i [n_L, k] per sample, so that the model of the
/// objective is ½c‖SᵀJδ + e‖² up to a constant: S_i S_iᵀ = w_i ∂²ℓ/∂ŷ² or its Gauss-Newton part,
/// S_i e_i = w_i ∂ℓ/∂ŷ. For quadratic losses S = W^½.
#pragma once

#include <torch/types.h>

namespace cdt::loss {

struct Residuals {
  torch::Tensor S;  ///< [r, n_L, k], float64
  torch::Tensor e;  ///< [r·k], float64
  /// D [n_L, k] and scale [r, k] with S_i = D·diag(scale_i), if all samples share one D: a single
  /// output, or two classes. Otherwise undefined.
  torch::Tensor D;
  torch::Tensor scale;
  bool all_one = false;  ///< whether `scale` is known to be all ones

  int64_t samples() const { return S.size(0); }
  int64_t size() const { return e.size(0); }  ///< r·k
  /// S u [n] and Sᵀv [r·k].
  torch::Tensor to_outputs(const torch::Tensor& u) const;
  torch::Tensor to_residuals(const torch::Tensor& v) const;
  /// Residuals of some samples, rows [m] of int64.
  Residuals of_samples(const torch::Tensor& rows) const;
};

struct ResidualShape {
  int64_t per_sample = 1;    ///< k
  bool one_for_all = false;  ///< whether all samples share one D
};

/// X applied from the right to a block-diagonal matrix: X·blockdiag(blocks), X [m, n], blocks [r,
/// C, k].
torch::Tensor times_blocks(const torch::Tensor& X, const torch::Tensor& blocks);

}  // namespace cdt::loss
