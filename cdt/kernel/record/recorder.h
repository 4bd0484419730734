/// Watches a forward pass and notes where each parameter enters, as the layer rules (rule.h) tell.
///
/// The recorder hangs on at::RecordFunction, so it sees the operators that any model calls
/// (torch::nn, our own layers, scripted and Python modules) and needs no hooks in them.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/rules/rule.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace cdt::kernel {

/// An operand made from parameters alone, by operators that no rule follows (a normalised weight, a
/// sum of two). Sites use it like a parameter, by an index behind those of the model's.
struct Computed {
  torch::Tensor value;             ///< with its graph
  std::vector<size_t> parameters;  ///< of the model, that it is made from
};

/// A forward pass and what was seen of it.
struct Recording {
  torch::Tensor outputs;                     ///< [r, n_L], with its graph.
  std::vector<std::unique_ptr<Site>> sites;  ///< those that the outputs depend on.
  std::vector<bool> used;                    ///< by parameter: do the outputs depend on it?
  std::vector<bool> covered;  ///< by parameter: does every path to the outputs go through a site?
  std::vector<Computed> computed;
  int64_t activation_bytes = 0;  ///< of all operator outputs: what the graph may hold. Without
                                 ///< views, and without what parameters alone make.

  /// Parameters of the model behind a computed operand; none behind a parameter itself.
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
/// training mode (batch norm,
///   dropout): the message says to call eval(). Also if no parameter moves the outputs.
/// Whether inputs and outputs are finite is found when the checks are settled.
Recording record(const Model& model, const torch::Tensor& x, PendingChecks& checks);

/// `work` on the first one or two samples, to learn what a sample costs. Of two where there are
/// more: batch norm in training mode refuses one, in words that help nobody.
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

/// Runs a pass of the model that is no function of inputs, a closure say, with the same refusals.
void watch(const Model& model, const std::function<void()>& pass);

/// How many outputs a sample has, by a pass on one or two of them that refuses nothing and leaves
/// states as they were.
int64_t outputs_per_sample(const Model& model, const torch::Tensor& x);

/// The outputs [r, n_L] with their graph alone, with the same refusals.
torch::Tensor differentiable_outputs(const Model& model, const torch::Tensor& x);
torch::Tensor differentiable_outputs(const Model& model, const torch::Tensor& x,
                                     PendingChecks& checks);

}  // namespace cdt::kernel
