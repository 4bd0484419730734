/// Cached plans of a model, from its first kernel for some shape of samples: how to cut samples
/// into blocks, and along which dimension they lie in each layer.
///
/// A plan depends on the model and shapes, not on parameter values, so it serves all kernels of a
/// training. Kernels computed with it are checked like any other; if a check shows that the model
/// has changed, the plan is discarded and the kernel recomputed.
#pragma once

#include <cdt/kernel/factor/plan.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

namespace cdt::kernel {

class RecordedKernel;

/// What plans depend on.
struct PlanKey {
  std::vector<int64_t> sample_shape;
  torch::ScalarType inputs = torch::kFloat32;
  torch::ScalarType accumulate = torch::kFloat64;
  torch::Device device = torch::kCPU;
  int64_t samples = 0;
  int64_t memory_bytes = 0;
  int64_t blocks_at_a_time = 1;

  bool operator==(const PlanKey& other) const = default;
};

struct KnownPlan {
  BlockPlan blocks;
  int64_t bytes = 0;                       ///< planned size of the largest block
  int64_t width = 0;                       ///< n_L
  std::vector<int64_t> sample_dimensions;  ///< dimension of h, layer by layer
  bool lean = false;                       ///< FactorOptions::lean
};

/// Thrown if the model's layers or outputs have changed since the plan was made.
struct StalePlan {};

/// The latest plans of a model. Thread-safe.
class PlanMemory {
 public:
  std::optional<KnownPlan> find(const PlanKey& key) const;
  void keep(PlanKey key, KnownPlan plan);
  void forget();

  /// The latest recorded kernel, for one thread at a time.
  struct Recorded {
    std::mutex in_use;
    std::unique_ptr<RecordedKernel> kernel;
    PlanKey asked;             ///< key of the latest kernel
    int64_t contradicted = 0;  ///< number of times that the model differed from its recording
    bool unfit = false;        ///< the model cannot be recorded
  };
  Recorded& recorded() { return recorded_; }

  /// Whether J u has been compared with Jᵀv (require_transposes).
  std::atomic<bool>& transposes() { return transposes_; }

  PlanMemory();
  ~PlanMemory();

 private:
  mutable std::mutex mutex_;
  Recorded recorded_;
  std::atomic<bool> transposes_ = false;
  std::vector<std::pair<PlanKey, KnownPlan>> plans_;
};

}  // namespace cdt::kernel
