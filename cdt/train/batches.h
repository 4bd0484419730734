/// Which samples each step sees.
#pragma once

#include <cdt/train/options.h>
#include <torch/types.h>

#include <cstdint>

namespace cdt::train {

/// All samples at every step, or a seeded partition into batches of at most `size`, passed through
/// epoch after epoch; the partition stays (so batches recur) or is drawn anew each epoch.
class Batches {
 public:
  /// `size` 0, or at least `samples`: all of them, in their own order.
  Batches(int64_t samples, int64_t size, bool reshuffle, uint64_t seed);

  bool all() const { return per_epoch_ == 1; }
  int64_t per_epoch() const { return per_epoch_; }
  /// The same for steps that see the same batch.
  int64_t id(int64_t step) const;
  /// Rows of the step's batch [b], int64; undefined for all.
  torch::Tensor rows(int64_t step) const;

 private:
  int64_t samples_;
  int64_t size_;
  int64_t per_epoch_;
  bool reshuffle_;
  uint64_t seed_;
  mutable uint64_t epoch_ = 0;   ///< whose order was asked for last, and
  mutable torch::Tensor order_;  ///< that order
};

/// Default samples of a batch under --form batch: kernels of 500 rows, where passes over
/// a batch cost as much as its kernel.
inline constexpr int64_t kBatchResiduals = 500;
/// `told`, or if that is 0 the usual number, for samples with k residuals each.
int64_t batch_rows(int64_t told, int64_t samples, int64_t per_sample);

/// What the steps of a run see. Points of a path see all samples, whatever the form makes of them;
/// batches of the form of this name are drawn anew each epoch, since nothing of theirs is kept.
Batches step_batches(const TrainOptions& options, int64_t samples, int64_t outputs);

}  // namespace cdt::train
