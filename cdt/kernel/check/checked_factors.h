/// Self-checked blocks of Jacobian factors, the basis of every computation with the kernel.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/kernel/replay/plan_memory.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace cdt::kernel {

/// Entries of a temporary tensor; larger ones are sliced, into smaller slices if the memory limit
/// is small.
int64_t slice_entries(int64_t memory_bytes, torch::Device device);

/// Everything that determines the plan for `samples` samples shaped like x.
PlanKey plan_key(const Model& model, const torch::Tensor& x, int64_t samples,
                 const NtkOptions& options, int64_t blocks_at_a_time);
/// A kernel holds two blocks at a time.
inline constexpr int64_t kBlocksOfAKernel = 2;
/// An operator keeps all of its blocks.
inline constexpr int64_t kAllBlocks = 0;

inline constexpr const char* kKernelOverflow =
    "the kernel overflowed: the network's derivatives are not finite, or too large to be squared";

/// Factors of blocks, and their checks: outputs must not depend on the other samples, and products
/// must agree with autograd. Results are valid once the checks are settled.
class CheckedFactors {
 public:
  CheckedFactors(const Model& model, const NtkOptions& options, FactorOptions factor_options)
      : model_(model), options_(options), factor_options_(std::move(factor_options)) {
    factor_options_.slice =
        std::min(factor_options_.slice, slice_entries(options.memory_bytes, model.device()));
  }

  /// Plans how to cut `samples` samples like x within the memory limit, from the model's cache or
  /// by recording the first samples. Called once, before all others.
  BlockPlan plan(const torch::Tensor& x, int64_t samples, int64_t blocks_at_a_time);
  /// The same, given a known plan.
  void adopt(const KnownPlan& known, int64_t samples);
  /// @throws InvalidArgument if the number of outputs per sample differs.
  void require_same_width(const torch::Tensor& x);

  /// When settled:
  /// @throws InvalidArgument if the outputs depend on the other samples, or differ between
  ///   evaluations.
  Factors factors_of(const torch::Tensor& x, const Block& block);
  /// @throws RefutedRule if two blocks have different groups of parameters.
  void require_same_groups(const Factors& a, const Factors& b) const;
  /// `images` [groups, rows of a] holds Θ_g v_b for each group, computed from the factors; v_aᵀΘ_g
  /// v_b is compared with autograd. When settled:
  /// @throws RefutedRule if a rule has failed.
  /// @throws NumericalError if rows of the Jacobian have failed, or are not finite.
  void check(const Factors& a, const Factors& b, const torch::Tensor& images);

  /// The same for a single block, by products of its factors with v; settles.
  void check(const Factors& factors);

  /// The pending checks, to which callers may add.
  PendingChecks& checks() { return checks_; }
  /// Reads the pending numbers from the device, and throws if a check fails.
  void settle() { checks_.settle(); }
  /// Repeats the checks on numbers that were recomputed in place and gathered.
  void judge_again() {
    self_check_ = 0;
    checks_.judge();
  }
  /// Call after all checks have passed: the model's next kernel of this shape uses the same plan.
  void remember_plan() const;

  const Model& model() const { return model_; }
  int64_t width() const { return width_; }  ///< n_L
  const std::vector<ParameterCoverage>& coverage() const { return coverage_; }
  double self_check() const { return self_check_; }  ///< largest relative gap so far
  /// Dimension along which samples lie, layer by layer; none if blocks differ.
  const std::optional<std::vector<int64_t>>& sample_dimensions() const {
    return sample_dimensions_;
  }
  /// Jᵀv over all samples and outputs, for checked replays.
  const std::vector<torch::Tensor>& pulled_back() const { return pulled_back_; }

 private:
  /// Whether the plan depends on the model only: no rule has been refuted.
  bool plan_is_usual() const {
    return factor_options_.by_jacobian.empty() && !factor_options_.all_by_jacobian &&
           !factor_options_.rules_only;
  }
  void require_same_outputs(const torch::Tensor& x, int64_t first, const Factors& factors);
  void require_same_alone(const torch::Tensor& x, int64_t last, const Factors& factors);
  torch::Tensor alone(const torch::Tensor& x, int64_t sample);
  void require_uncoupled(const Factors& factors, const torch::Tensor& gaps, int64_t first);

  const Model& model_;
  const NtkOptions& options_;
  FactorOptions factor_options_;
  PendingChecks checks_;
  PlanKey plan_key_;
  BlockPlan plan_;
  int64_t plan_bytes_ = 0;
  bool plan_known_ = false;
  std::optional<std::vector<int64_t>> sample_dimensions_;
  int64_t width_ = 0;
  std::vector<ParameterCoverage> coverage_;
  double self_check_ = 0;
  std::vector<torch::Tensor> pulled_back_;
  /// Outputs by inputs and first sample: the same samples must give them again, alone or with
  /// others.
  std::map<std::pair<const void*, int64_t>, torch::Tensor> seen_;
};

/// Runs `work(CheckedFactors&)` until no rule is refuted; each round moves at least one parameter
/// to the Jacobian path.
template <class Work>
auto with_fallback(const Model& model, const NtkOptions& options, const Work& work) {
  const KernelScope scope;
  CDT_REQUIRE(options.accumulate == torch::kFloat64 || options.accumulate == torch::kFloat32,
              "kernels accumulate in float64 or float32, got ", options.accumulate);
  FactorOptions factor_options;
  factor_options.accumulate = options.accumulate;
  factor_options.all_by_jacobian = options.path == NtkOptions::Path::kJacobian;
  for (;;) {
    try {
      CheckedFactors source(model, options, factor_options);
      return work(source);
    } catch (const StalePlan&) {
      model.plans().forget();
    } catch (const RefutedRule& refuted) {
      const size_t before = factor_options.by_jacobian.size();
      factor_options.by_jacobian.insert(refuted.parameters.begin(), refuted.parameters.end());
      if (factor_options.by_jacobian.size() == before) {
        throw NumericalError(
            "the model computes different functions for different blocks of samples");
      }
    }
  }
}

}  // namespace cdt::kernel
