/// The Jacobian of a block of samples in factored form, and products of two such blocks.
///
/// Each group of parameters (a weight with its bias, a lone bias, everything that no rule covers)
/// holds its part of J either as an outer product, J_i = Σ_t l_it r_itᵀ with l, r the inputs and
/// backpropagated gradients of a linear layer (the Jacobian is never formed), or as plain rows.
#pragma once

#include <cdt/kernel/model.h>

#include <set>
#include <string>
#include <vector>

namespace cdt::kernel {

/// J_i = Σ_t left_it right_itᵀ: left [b, c, T, d₀], right [b, c′, T, d₁]; of c and c′ one is n_L,
/// the other 1.
struct OuterProduct {
  torch::Tensor left;
  torch::Tensor right;
};

/// The part of J that belongs to some parameters; `rows` or `terms`, not both.
struct FactorGroup {
  std::vector<size_t> parameters;
  torch::Tensor rows;               ///< [b·n_L, m]
  std::vector<OuterProduct> terms;  ///< summed: a weight that is used several times has several
  double trace = 0;  ///< (a bound on) the trace of its kernel: the scale of the self-check
};

/// How the Jacobian of each parameter was found.
enum class Coverage { kRule, kJacobian, kUnused };

struct ParameterCoverage {
  Coverage coverage = Coverage::kUnused;
  std::string reason;  ///< why no rule applies, where none does
};

/// The factors of one block of b samples, and what the self-check needs.
struct Factors {
  int64_t samples = 0;
  torch::Tensor outputs;  ///< ŷ [b, n_L], detached.
  std::vector<FactorGroup> groups;
  std::vector<ParameterCoverage> coverage;  ///< by parameter
  torch::Tensor probe;  ///< v [b·n_L], random signs, in the accumulation dtype.
  std::vector<torch::Tensor>
      pulled_back;  ///< Jᵀv by autograd, by parameter; undefined where unused.
};

struct FactorOptions {
  torch::ScalarType accumulate = torch::kFloat64;
  std::set<size_t> by_jacobian;  ///< parameters whose rules have proved wrong
  bool all_by_jacobian = false;
  int64_t typical_samples =
      1;              ///< block size that operation counts assume: the same form in every block
  uint64_t seed = 0;  ///< of the probe
};

/// Records the model on a block of samples and factors its Jacobian.
/// @throws InvalidArgument as record() does, and if a sample's outputs depend on the other samples.
Factors factorize(const Model& model, const torch::Tensor& x, const FactorOptions& options);

/// What one sample costs, from a recording of two.
struct FactorCost {
  int64_t factor_bytes = 0;  ///< kept
  int64_t graph_bytes = 0;   ///< while factorize() runs
};
FactorCost cost_per_sample(const Model& model, const torch::Tensor& x,
                           const FactorOptions& options);

/// Adds the product of rows [i, i + ni) of `a` and [j, j + nj) of `b` (in samples) to `theta`
/// [ni·n_L, nj·n_L], and adds weight·(v_aᵀ Θ_g v_b) for each group g to `probes`.
void add_product(torch::Tensor theta, const Factors& a, int64_t i, int64_t ni, const Factors& b,
                 int64_t j, int64_t nj, double weight, std::vector<double>& probes);

}  // namespace cdt::kernel
