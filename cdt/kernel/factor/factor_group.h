/// The part of a block's Jacobian that belongs to some parameters, as outer products or as plain
/// rows.
#pragma once

#include <torch/types.h>

#include <utility>
#include <vector>

namespace cdt::kernel {

/// J_i = scale·Σ_t left_it right_itᵀ: left [b, c, T, d₀], right [b, c′, T, d₁]; one side is the
/// layer's input (c = 1), the other its gradient (c outputs of the network). A bias joins as the
/// weight of a constant input: beside its input each position has an entry `bias/scale`. The input
/// of an embedding is given by its indices: left [b, 1, T, 1] stands for unit vectors.
struct OuterProduct {
  torch::Tensor left;
  torch::Tensor right;
  bool input_is_left = false;
  double scale = 1;
  double bias = 0;      ///< the bias's own factor; 0 for none
  int64_t indices = 0;  ///< d₀, where the left side holds indices; 0 where it does not

  int64_t rows() const { return indices > 0 ? indices : left.size(3); }  ///< d₀
};

/// A = the layer's input, G = the gradient at its output.
const torch::Tensor& input_of(const OuterProduct& term);
const torch::Tensor& gradient_of(const OuterProduct& term);

/// Σ weight·size², sizes being float64 scalars on the device: nothing waits for them until somebody
/// reads them.
struct SquareSum {
  std::vector<std::pair<double, torch::Tensor>> parts;  ///< weight, size

  /// Of the parts' sizes, in their order.
  double value(const double* sizes) const;
};

/// The part of J that belongs to some parameters; `rows` or `terms`, not both.
struct FactorGroup {
  std::vector<size_t> parameters;
  torch::Tensor rows;               ///< [b·c, m], columns by parameter, each as it is stored
  std::vector<OuterProduct> terms;  ///< summed: a weight that is used several times has several
  SquareSum trace;  ///< (a bound on) the trace of its kernel: the scale of the self-check
};

/// Makes a term of a matrix one of a taller matrix, whose rows from `first` on it is.
void place(OuterProduct& term, int64_t first, int64_t rows);

/// The rows [b·c, d₀·d₁] that the terms stand for, in the network's dtype; a bias adds its own
/// columns behind them.
torch::Tensor to_rows(const std::vector<OuterProduct>& terms);

/// Σ_i T·Σ_t ‖l_it‖²‖r_it‖²: the trace of the group's kernel for one position and term, up to
/// rounding of the network, and an upper bound for more.
SquareSum trace_bound(const FactorGroup& group);

/// ‖J_g‖² in float64: the trace of the group's kernel up to rounding, however many positions and
/// terms.
double exact_trace(const FactorGroup& group);

}  // namespace cdt::kernel
