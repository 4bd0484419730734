#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/train/batches.h>
#include <torch/types.h>

#include <algorithm>

namespace cdt::train {

Batches::Batches(int64_t samples, int64_t size, bool reshuffle, uint64_t seed)
    : samples_(samples),
      size_(size == 0 ? samples : std::min(size, samples)),
      per_epoch_(0),
      reshuffle_(reshuffle),
      seed_(seed) {
  CDT_REQUIRE(samples >= 1, "there must be training samples, not ", samples);
  CDT_REQUIRE(size >= 0, "batch must be 0 (all samples) or more, not ", size);
  per_epoch_ = (samples_ + size_ - 1) / size_;
}

int64_t Batches::id(int64_t step) const {
  if (all()) return 0;
  return reshuffle_ ? step : step % per_epoch_;
}

torch::Tensor Batches::rows(int64_t step) const {
  if (all()) return {};
  const auto epoch = static_cast<uint64_t>(reshuffle_ ? step / per_epoch_ : 0);
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed_ + epoch);
  const torch::Tensor order = torch::randperm(samples_, generator, torch::kInt64);
  const int64_t first = step % per_epoch_ * size_;
  return order.narrow(0, first, std::min(size_, samples_ - first));
}

}  // namespace cdt::train
