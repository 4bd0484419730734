/// What was learned of a model when its kernel was first made for some shape of samples: how to cut
/// them into blocks, and where they lie in each layer.
///
/// It is about the model and shapes, not about values of parameters, so that it serves every
/// kernel of a training. A kernel that was made with it is checked like any other; where a check
/// says that the model is no longer the one it was, it is forgotten and the kernel made anew.
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

/// What plans differ by.
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
  int64_t bytes = 0;                       ///< of the largest block, as planned
  int64_t width = 0;                       ///< n_L
  std::vector<int64_t> sample_dimensions;  ///< of h, layer by layer
  bool lean = false;                       ///< FactorOptions::lean
};

/// The model's layers or outputs are not as they were when it was planned for.
struct StalePlan {};

/// The latest plans of a model; threads may share it.
class PlanMemory {
 public:
  std::optional<KnownPlan> find(const PlanKey& key) const;
  void keep(PlanKey key, KnownPlan plan);
  void forget();

  /// The latest kernel that was recorded, for one thread at a time.
  struct Recorded {
    std::mutex in_use;
    std::unique_ptr<RecordedKernel> kernel;
    PlanKey asked;             ///< of the latest kernel
    int64_t contradicted = 0;  ///< how often the model was no longer what was recorded
    bool unfit = false;        ///< the model cannot be recorded
  };
  Recorded& recorded() { return recorded_; }

  /// Whether J u was held against Jᵀv (require_transposes).
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
