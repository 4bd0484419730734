/// Which samples each step sees.
#pragma once

#include <cdt/train/options.h>
#include <torch/types.h>

#include <cstdint>

namespace cdt::train {

/// All samples at every step, or a seeded partition into batches of at most `size`. Steps pass
/// through the partition epoch after epoch; it is fixed (so batches recur) or reshuffled each
/// epoch.
class Batches {
 public:
  /// A `size` of 0, or of at least `samples`, means all samples, in their own order.
  Batches(int64_t samples, int64_t size, bool reshuffle, uint64_t seed);

  bool all() const { return per_epoch_ == 1; }
  int64_t per_epoch() const { return per_epoch_; }
  /// Equal for steps that see the same batch.
  int64_t id(int64_t step) const;
  /// Row indices of the step's batch [b], int64; undefined means all rows.
  torch::Tensor rows(int64_t step) const;

 private:
  int64_t samples_;
  int64_t size_;
  int64_t per_epoch_;
  bool reshuffle_;
  uint64_t seed_;
  mutable uint64_t epoch_ = 0;   ///< epoch of `order_`
  mutable torch::Tensor order_;  ///< cached permutation of the samples
};

/// Default residuals per batch under --form batch. With kernels of 500 rows, the passes over a
/// batch cost as much as its kernel.
inline constexpr int64_t kBatchResiduals = 500;
/// Samples per batch: `told`, or if that is 0, as many as have kBatchResiduals residuals at
/// `per_sample` residuals each. At most `samples`.
int64_t batch_rows(int64_t told, int64_t samples, int64_t per_sample);

/// The batches of a run. Steps of a decay path see all samples, whatever the form. With form batch,
/// batches are reshuffled each epoch, because no state is kept per batch.
Batches step_batches(const TrainOptions& options, int64_t samples, int64_t outputs);

}  // namespace cdt::train
