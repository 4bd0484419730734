/// Which samples each step sees.
#pragma once

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
};

}  // namespace cdt::train
