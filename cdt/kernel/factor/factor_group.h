/// The part of a block's Jacobian for some parameters, as outer products or as rows.
#pragma once

#include <torch/types.h>

#include <utility>
#include <vector>

namespace cdt::kernel {

/// J_i = scale·Σ_t left_it right_itᵀ: left [b, c, T, d₀], right [b, c′, T, d₁]. One side is the
/// layer's input (c = 1), the other its gradient (c outputs of the network). A bias is the weight
/// of a constant input: the input has an additional entry `bias/scale` per position. The input of
/// an embedding is given by indices: left [b, 1, T, 1] stands for unit vectors.
struct OuterProduct {
  torch::Tensor left;
  torch::Tensor right;
  bool input_is_left = false;
  double scale = 1;
  double bias = 0;      ///< the bias's own factor; 0 for none
  int64_t indices = 0;  ///< d₀ if the left side holds indices, otherwise 0

  int64_t rows() const { return indices > 0 ? indices : left.size(3); }  ///< d₀
};

/// A = the layer's input, G = the gradient at its output.
const torch::Tensor& input_of(const OuterProduct& term);
const torch::Tensor& gradient_of(const OuterProduct& term);

/// Σ weight·size², with sizes as float64 scalars on the device, read only on request.
struct SquareSum {
  std::vector<std::pair<double, torch::Tensor>> parts;  ///< weight, size

  /// The sum, given the parts' sizes in order.
  double value(const double* sizes) const;
};

/// The part of J for some parameters; either `rows` or `terms`.
struct FactorGroup {
  std::vector<size_t> parameters;
  torch::Tensor rows;               ///< [b·c, m], columns by parameter in storage order
  std::vector<OuterProduct> terms;  ///< summed; a weight used several times has several
  SquareSum trace;  ///< (upper bound on) the trace of its kernel, the scale of the self-check
};

/// Embeds a term of a matrix in a taller matrix, at rows from `first`.
void place(OuterProduct& term, int64_t first, int64_t rows);

/// The terms as rows [b·c, d₀·d₁] in the network's dtype, followed by the columns of a bias.
torch::Tensor to_rows(const std::vector<OuterProduct>& terms);

/// Σ_i T·Σ_t ‖l_it‖²‖r_it‖²: the trace of the group's kernel for one position and term, up to
/// rounding of the network; an upper bound for more.
SquareSum trace_bound(const FactorGroup& group);

/// ‖J_g‖² in float64: the trace of the group's kernel up to rounding, for any number of positions
/// and terms.
double exact_trace(const FactorGroup& group);

}  // namespace cdt::kernel
