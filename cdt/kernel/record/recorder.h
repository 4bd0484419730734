/// Observes a forward pass and records where each parameter enters, using the layer rules (rule.h).
///
/// The recorder uses at::RecordFunction, so it sees the operators that any model calls (torch::nn,
/// our own layers, scripted and Python modules) without hooks in them.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/rules/rule.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace cdt::kernel {

/// An operand computed from parameters only, by operators that no rule follows (a normalised
/// weight, a sum of two). Sites use it like a parameter, with an index after those of the model.
struct Computed {
  torch::Tensor value;             ///< with its graph
  std::vector<size_t> parameters;  ///< parameters of the model from which it is computed
};

/// A recorded forward pass.
struct Recording {
  torch::Tensor outputs;                     ///< [r, n_L], with its graph.
  std::vector<std::unique_ptr<Site>> sites;  ///< those that influence the outputs
  std::vector<bool> used;                    ///< per parameter: whether the outputs depend on it
  std::vector<bool> covered;  ///< per parameter: whether every path to the outputs passes a site
  std::vector<Computed> computed;
  /// Bytes of all operator outputs, which the graph may hold; without views and operands computed
  /// from parameters only.
  int64_t activation_bytes = 0;

  /// Parameters of the model behind a computed operand; none for a parameter itself.
  std::span<const size_t> made_from(size_t operand) const {
    if (operand < used.size()) return {};
    return computed[operand - used.size()].parameters;
  }
  int64_t entries_of(size_t operand, const Model& model) const {
    return (operand < used.size() ? model.parameters()[operand]
                                  : computed[operand - used.size()].value)
        .numel();
  }
};

/// Runs the model once and records it.
/// @throws InvalidArgument as evaluate() does, and if a layer couples samples or is random in
///   training mode (batch norm, dropout; the message says to call eval()), or no parameter
///   influences the outputs. Inputs and outputs are tested for finiteness when the checks are
///   settled.
Recording record(const Model& model, const torch::Tensor& x, PendingChecks& checks);

/// Runs `work` on the first one or two samples, to measure the cost per sample. Uses two if
/// possible, since batch norm in training mode fails on one with an unhelpful message.
/// @throws InvalidArgument if the model does not run on so few samples.
template <class Work>
auto on_few_samples(const torch::Tensor& x, const Work& work) {
  const int64_t samples = x.size(0) > 2 ? 2 : 1;
  try {
    return work(x.narrow(0, 0, samples));
  } catch (const c10::Error& error) {
    throw InvalidArgument(
        c10::str("the model must take any number of samples, but failed on the first ", samples,
                 " of ", x.size(0), ": ", error.what_without_backtrace()));
  }
}

/// Runs a pass of the model that is not a function of inputs, such as a closure, with the same
/// checks.
void watch(const Model& model, const std::function<void()>& pass);

/// Number of outputs per sample, from a pass on one or two samples without checks, which restores
/// states.
int64_t outputs_per_sample(const Model& model, const torch::Tensor& x);

/// Only the outputs [r, n_L] with their graph, with the same checks.
torch::Tensor differentiable_outputs(const Model& model, const torch::Tensor& x);
torch::Tensor differentiable_outputs(const Model& model, const torch::Tensor& x,
                                     PendingChecks& checks);

}  // namespace cdt::kernel
