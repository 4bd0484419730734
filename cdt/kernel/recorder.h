/// Watches a forward pass and notes where each parameter enters: the raw material of the layer
/// rules.
///
/// The recorder hangs on at::RecordFunction, so it sees the operators that any model calls
/// (torch::nn, our own layers, scripted and Python modules) and needs no hooks in them.
#pragma once

#include <cdt/kernel/model.h>

#include <optional>
#include <string>
#include <vector>

namespace cdt::kernel {

/// An operand that is scale·θ_p or scale·θ_pᵀ.
struct ParameterUse {
  size_t parameter = 0;
  double scale = 1;
  bool transposed = false;
};

/// One operator call that is linear in a parameter:
///   h = A·W + b  (linear: weight, input, perhaps bias),  h = … + b  (bias alone),  h = x ∘ γ
///   (scale, input).
struct Site {
  std::optional<ParameterUse>
      weight;  ///< W [in, out] as multiplied; `transposed` if θ_p is stored [out, in].
  std::optional<ParameterUse> bias;
  std::optional<ParameterUse> scale;
  torch::Tensor input;  ///< A [..., in] or x; undefined for a bias alone.
  int64_t input_version =
      0;  ///< of `input` when it was used: a later in-place change spoils the record.
  torch::autograd::Edge
      edge;  ///< of h. The tensor h itself may be overwritten by an in-place activation.
  std::vector<int64_t> output_shape;  ///< of h.
};

/// A forward pass and what was seen of it.
struct Recording {
  torch::Tensor outputs;      ///< [r, n_L], with its graph.
  std::vector<Site> sites;    ///< those that the outputs depend on.
  std::vector<bool> used;     ///< by parameter: do the outputs depend on it?
  std::vector<bool> covered;  ///< by parameter: does every path to the outputs go through a site?
  int64_t activation_bytes = 0;  ///< of all operator outputs: what the graph may hold.
};

/// Runs the model once and records it.
/// @throws InvalidArgument as evaluate() does, and if a layer couples samples or is random in
/// training mode (batch norm,
///   dropout): the message says to call eval(). Also if no parameter moves the outputs.
Recording record(const Model& model, const torch::Tensor& x);

/// The outputs [r, n_L] with their graph alone, with the same refusals.
torch::Tensor differentiable_outputs(const Model& model, const torch::Tensor& x);

}  // namespace cdt::kernel
