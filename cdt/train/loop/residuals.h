/// The objective of one linearization as a sum of squares.
///
/// Residuals are Sᵀŷ + …, one block S_i [n_L, k] a sample, such that the objective's model is
/// ‖SᵀJδ + e‖² up to a constant: S = W^½ for quadratic losses with weights W; for the cross entropy
/// its generalised Gauss-Newton form, S_i S_iᵀ = w_i(diag p − ppᵀ) and S_i e_i = w_i(p − y), y as
/// smoothed.
#pragma once

#include <cdt/train/objective.h>
#include <cdt/train/ranks.h>

namespace cdt::train {

struct Residuals {
  torch::Tensor S;  ///< [r, n_L, k], float64
  torch::Tensor e;  ///< [r·k], float64
  /// D [n_L, k] and scale [r, k] with S_i = D·diag(scale_i), where there is one D for all samples:
  /// quadratic losses, two classes. Otherwise undefined.
  torch::Tensor D;
  torch::Tensor scale;
  bool all_one = false;  ///< whether that is known of the scale

  int64_t samples() const { return S.size(0); }
  int64_t size() const { return e.size(0); }  ///< r·k
  /// S u [n] and Sᵀv [r·k].
  torch::Tensor to_outputs(const torch::Tensor& u) const;
  torch::Tensor to_residuals(const torch::Tensor& v) const;
  /// Those of some samples, rows [m] of int64.
  Residuals of_samples(const torch::Tensor& rows) const;
  Residuals of_range(const Share& rows) const;
  /// Those of all ranks.
  Residuals gathered(const Ranks& ranks) const;
};

/// k: one of two classes, else n_L.
int64_t residuals_per_sample(dynamics::Loss loss, int64_t outputs);

/// Of outputs ŷ [r, n_L] and labels, float64; weights [r·n_L] or undefined.
Residuals residuals_of(const Objective& objective, const torch::Tensor& outputs,
                       const torch::Tensor& labels, const torch::Tensor& weights);

}  // namespace cdt::train
