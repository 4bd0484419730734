/// The Jacobian of a block of samples in factored form.
///
/// Each group of parameters (a weight with its bias, a lone bias, all that no rule covers) holds
/// its part of J either as an outer product, J_i = Σ_t l_it r_itᵀ with l, r the inputs and
/// backpropagated gradients of a linear layer (the Jacobian is never formed), or as rows.
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

/// The factors of one block of b samples and c outputs, and data for the self-check.
struct Factors {
  int64_t samples = 0;    ///< b
  int64_t width = 0;      ///< c
  torch::Tensor outputs;  ///< ŷ [b, n_L], detached; all outputs, not only the block's
  std::vector<FactorGroup> groups;
  std::vector<ParameterCoverage> coverage;  ///< per parameter
  torch::Tensor probe;  ///< v [b·c], random, in the accumulation dtype; undefined: no check
  /// Jᵀv by autograd, per parameter; undefined where unused.
  std::vector<torch::Tensor> pulled_back;
  std::vector<torch::Tensor> pulled_back_squares;  ///< ‖·‖² of each in float64, likewise
  /// The dimension of h along which samples lie, layer by layer; none if some layer has no such
  /// dimension.
  std::optional<std::vector<int64_t>> sample_dimensions;
  double coupling = 0;         ///< for Jacobian rows: change of a sample's outputs when evaluated
                               ///< alone
  int64_t coupled_sample = 0;  ///< the sample with the largest change
};

/// Thrown if a rule turns out to be wrong. Its parameters move to the Jacobian path and the work
/// restarts.
struct RefutedRule {
  std::vector<size_t> parameters;
};

struct FactorOptions {
  torch::ScalarType accumulate = torch::kFloat64;
  std::set<size_t> by_jacobian;  ///< parameters whose rules have failed
  bool all_by_jacobian = false;
  bool rules_only = false;  ///< throw RefutedRule if Jacobian rows would be needed
  int64_t samples = 1;      ///< size of the whole batch: operation counts choose one form for all
                            ///< blocks
  int64_t first_output = 0;
  int64_t outputs = 0;               ///< number from the first one on; 0: all
  uint64_t seed = 0;                 ///< seed of the probe
  int64_t slice = int64_t{1} << 20;  ///< entries that an operator without a rule processes at a
                                     ///< time
  torch::Tensor probe;               ///< undefined: drawn from the seed
  /// From an earlier factorization; none: determined by the probe, which waits for the device.
  std::optional<std::vector<int64_t>> sample_dimensions;
  /// Use factors that need less memory, at up to twice the operations.
  bool lean = false;
  /// Skip the self-check if sample_dimensions are known.
  bool trusted = false;
  /// On a GPU, run the network's passes on another stream: the pass of the self-check, which no
  /// rule needs, then overlaps with rules and products until the checks are gathered. Worthwhile
  /// only if operations are queued fast enough, as in a recording.
  bool passes_aside = false;
};

/// Records the model on a block of samples and factors the rows of its Jacobian for the chosen
/// outputs. Valid once the checks are settled.
/// @throws InvalidArgument as record() does.
/// @throws RefutedRule if rules_only is set and rules do not cover all parameters.
/// @throws StalePlan, here or from the checks, if samples lie along other dimensions than given.
Factors factorize(const Model& model, const torch::Tensor& x, const FactorOptions& options,
                  PendingChecks& checks);

/// The random weights v [b, c] of a self-check.
torch::Tensor make_probe(uint64_t seed, int64_t samples, int64_t outputs,
                         const torch::TensorOptions& options);

/// Cost per sample, from a recording of the first one or two. (Depends only on the model and the
/// shape of a sample, so callers may cache it.)
struct FactorCost {
  int64_t shared_bytes = 0;   ///< kept, independent of the number of outputs
  int64_t output_bytes = 0;   ///< kept per output of the block
  int64_t graph_bytes = 0;    ///< during factorize(), independent of the number of outputs
  int64_t working_bytes = 0;  ///< during factorize(), per output of the block
  int64_t probe_bytes = 0;    ///< until factors are made, independent of the number of outputs
  bool by_rules = true;       ///< whether, by the recording, no parameter needs the Jacobian path
  torch::Tensor outputs;      ///< ŷ of the recorded samples, evaluated without the others

  int64_t kept_bytes(int64_t block_outputs) const {
    return shared_bytes + block_outputs * output_bytes;
  }
  /// Bytes per sample with `blocks` blocks of `block_outputs` outputs, one of which is being
  /// computed.
  int64_t bytes(int64_t block_outputs, int64_t blocks) const {
    const int64_t kept = kept_bytes(block_outputs);
    return blocks * kept + graph_bytes + block_outputs * working_bytes +
           std::max<int64_t>(0, probe_bytes - kept);
  }
};
/// @throws InvalidArgument as record() does, or if the model cannot run on so few samples.
FactorCost cost_per_sample(const Model& model, const torch::Tensor& x,
                           const FactorOptions& options);

}  // namespace cdt::kernel
