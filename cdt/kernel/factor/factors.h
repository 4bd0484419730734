/// The Jacobian of a block of samples in factored form.
///
/// Each group of parameters (a weight with its bias, a lone bias, everything that no rule covers)
/// holds its part of J either as an outer product, J_i = Σ_t l_it r_itᵀ with l, r the inputs and
/// backpropagated gradients of a linear layer (the Jacobian is never formed), or as plain rows.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/check/pending_checks.h>
#include <cdt/kernel/factor/factor_group.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/ntk.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cdt::kernel {

/// The factors of one block of b samples and c outputs, and what the self-check needs.
struct Factors {
  int64_t samples = 0;    ///< b
  int64_t width = 0;      ///< c
  torch::Tensor outputs;  ///< ŷ [b, n_L], detached: all outputs, not only the block's.
  std::vector<FactorGroup> groups;
  std::vector<ParameterCoverage> coverage;  ///< by parameter
  torch::Tensor probe;  ///< v [b·c], random, in the accumulation dtype; undefined: no check.
  std::vector<torch::Tensor>
      pulled_back;  ///< Jᵀv by autograd, by parameter; undefined where unused.
  std::vector<torch::Tensor> pulled_back_squares;  ///< ‖·‖² of each in float64, likewise
  /// Of h, where samples lie, layer by layer; none if that is not so for some layer.
  std::optional<std::vector<int64_t>> sample_dimensions;
  double coupling = 0;         ///< of Jacobian rows: how far a sample's outputs move when alone
  int64_t coupled_sample = 0;  ///< the sample that moves farthest
};

/// A rule that does not hold after all; its parameters go to the Jacobian path and the work is
/// started again.
struct RefutedRule {
  std::vector<size_t> parameters;
};

struct FactorOptions {
  torch::ScalarType accumulate = torch::kFloat64;
  std::set<size_t> by_jacobian;  ///< parameters whose rules have proved wrong
  bool all_by_jacobian = false;
  bool rules_only = false;  ///< RefutedRule is thrown where rows of the Jacobian would be needed
  int64_t samples = 1;  ///< of the whole batch: operation counts choose one form for every block
  int64_t first_output = 0;
  int64_t outputs = 0;               ///< from the first one on; 0 for all
  uint64_t seed = 0;                 ///< of the probe
  int64_t slice = int64_t{1} << 20;  ///< entries that an operator without a rule takes at a time
  torch::Tensor probe;               ///< undefined: made from the seed
  /// As an earlier factorization has found them; none: the probe tells, and is waited for.
  std::optional<std::vector<int64_t>> sample_dimensions;
  /// Factors that need less room, at up to twice the operations.
  bool lean = false;
  /// Nothing for a self-check, where sample_dimensions are known.
  bool trusted = false;
  /// On a GPU the network's passes have a stream of their own: that of the self-check, which no
  /// rule waits for, goes on beside rules and products until the checks are gathered. Worth its
  /// while where operations are asked for in time: in a recording.
  bool passes_aside = false;
};

/// Records the model on a block of samples and factors its Jacobian, the rows of the chosen
/// outputs. They are good once the checks are settled.
/// @throws InvalidArgument as record() does.
/// @throws RefutedRule if asked to, where rules do not cover all parameters.
/// @throws StalePlan, now or from the checks, if samples do not lie where they did.
Factors factorize(const Model& model, const torch::Tensor& x, const FactorOptions& options,
                  PendingChecks& checks);

/// The random weights v [b, c] of a self-check.
torch::Tensor make_probe(uint64_t seed, int64_t samples, int64_t outputs,
                         const torch::TensorOptions& options);

/// What one sample costs, from a recording of the first one or two. (Depends on the model and on
/// the shape of a sample alone: whoever plans often may keep it.)
struct FactorCost {
  int64_t shared_bytes = 0;   ///< kept, whatever the number of outputs
  int64_t output_bytes = 0;   ///< kept for each output of the block
  int64_t graph_bytes = 0;    ///< while factorize() runs, whatever the number of outputs
  int64_t working_bytes = 0;  ///< while factorize() runs, for each output of the block
  int64_t probe_bytes = 0;    ///< until it makes what is kept, whatever the number of outputs
  bool by_rules = true;   ///< as far as the recording tells, no parameter needs the Jacobian path
  torch::Tensor outputs;  ///< ŷ of the samples that were recorded, without the others

  int64_t kept_bytes(int64_t block_outputs) const {
    return shared_bytes + block_outputs * output_bytes;
  }
  /// Of a sample in `blocks` blocks of so many outputs, one of which is being made.
  int64_t bytes(int64_t block_outputs, int64_t blocks) const {
    const int64_t kept = kept_bytes(block_outputs);
    return blocks * kept + graph_bytes + block_outputs * working_bytes +
           std::max<int64_t>(0, probe_bytes - kept);
  }
};
/// @throws InvalidArgument as record() does, or if the model does not run on so few samples.
FactorCost cost_per_sample(const Model& model, const torch::Tensor& x,
                           const FactorOptions& options);

}  // namespace cdt::kernel
