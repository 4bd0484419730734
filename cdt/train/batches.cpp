#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/train/batches.h>
#include <cdt/train/loop/residuals.h>
#include <torch/types.h>

#include <algorithm>

namespace cdt::train {

Batches::Batches(int64_t samples, int64_t size, bool reshuffle, uint64_t seed)
    : samples_(samples),
      size_(size == 0 ? samples : std::min(size, samples)),
      per_epoch_(0),
      reshuffle_(reshuffle),
      seed_(seed) {
  CDT_REQUIRE(samples >= 1, "there must be training samples, got ", samples);
  CDT_REQUIRE(size >= 0, "batch must be 0 (all samples) or more, got ", size);
  per_epoch_ = (samples_ + size_ - 1) / size_;
}

int64_t Batches::id(int64_t step) const {
  if (all()) return 0;
  return reshuffle_ ? step : step % per_epoch_;
}

torch::Tensor Batches::rows(int64_t step) const {
  if (all()) return {};
  const auto epoch = static_cast<uint64_t>(reshuffle_ ? step / per_epoch_ : 0);
  if (!order_.defined() || epoch_ != epoch) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed_ + epoch);
    order_ = torch::randperm(samples_, generator, torch::kInt64);
    epoch_ = epoch;
  }
  const int64_t first = step % per_epoch_ * size_;
  return order_.narrow(0, first, std::min(size_, samples_ - first));
}

int64_t batch_rows(int64_t told, int64_t samples, int64_t per_sample) {
  return std::min(samples, told > 0 ? told : std::max<int64_t>(1, kBatchResiduals / per_sample));
}

Batches step_batches(const TrainOptions& options, int64_t samples, int64_t outputs) {
  if (options.method->path) return {samples, 0, false, options.seed};
  if (options.form->batches) {
    const int64_t per_sample = options.loss->residual_shape(outputs).per_sample;
    return {samples, batch_rows(options.batch, samples, per_sample), true, options.seed};
  }
  return {samples, options.batch, options.reshuffle, options.seed};
}

}  // namespace cdt::train
