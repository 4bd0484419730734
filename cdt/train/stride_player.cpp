#include <cdt/core/error.h>
#include <cdt/core/text/numbers.h>
#include <cdt/train/stride_player.h>

#include <algorithm>
#include <utility>

namespace cdt::train {
namespace {

using torch::Tensor;

constexpr int64_t kMostSteps = 256;
/// Length of the first stride, before any timing.
constexpr int64_t kFirstSteps = 16;
/// Recording takes as long as about a dozen steps.
constexpr int64_t kWorthRecording = 16;
/// Number of steps recorded as one, in long strides with many steps left: recording them takes as
/// long as some hundred steps.
constexpr int64_t kTogether = 8;
constexpr int64_t kLongStride = 128;
constexpr int64_t kWorthTogether = 1024;
/// Target time of a stride: the longest delay of progress reports and interruptions.
constexpr double kSeconds = 0.05;

/// Writes numbers [k] to the row `now` of `rows`, which is allocated at the first call.
void put_row(Tensor& rows, const Tensor& now, const Tensor& numbers, int64_t capacity) {
  if (!rows.defined()) rows = torch::zeros({capacity, numbers.size(0)}, numbers.options());
  rows.index_copy_(0, now, numbers.unsqueeze(0));
}

/// Copies rows [count, k] to the host.
std::vector<std::vector<double>> read_rows(const Tensor& rows, int64_t count) {
  std::vector<std::vector<double>> found;
  if (!rows.defined()) return found;
  const std::vector<double> flat = to_vector(rows.narrow(0, 0, count));
  const int64_t width = rows.size(1);
  for (int64_t i = 0; i < count; ++i) {
    const auto first = flat.begin() + i * width;
    found.emplace_back(first, first + width);
  }
  return found;
}

}  // namespace

StridePlayer::StridePlayer(torch::Device device, const StrideOptions& options)
    : device_(device), options_(options) {
  CDT_REQUIRE(options.most >= 0, "a stride must have steps, got ", options.most);
  pace_ = options.most > 0 ? options.most : device.is_cuda() ? kFirstSteps : 1;
}

void StridePlayer::prepare(kernel::Sequence step, kernel::Sequence validate, int64_t rates,
                           int64_t left) {
  playback_.reset();
  const int64_t capacity = std::max(options_.most, kMostSteps);
  const auto numbers = torch::TensorOptions().dtype(torch::kFloat64).device(device_);
  rates_ = torch::zeros({capacity, rates}, numbers);
  now_ = torch::zeros({1}, numbers.dtype(torch::kInt64));
  rows_ = validation_ = Tensor();
  rehearsed_ = false;
  together_ = left >= kWorthTogether ? kTogether : 1;
  playback_ = kernel::make_playback({std::move(step), std::move(validate)}, device_,
                                    options_.record && left >= kWorthRecording);
}

Tensor StridePlayer::rates() const { return rates_.index_select(0, now_).view({-1}); }

void StridePlayer::put(const Tensor& numbers) {
  put_row(rows_, now_, numbers, rates_.size(0));
  now_.add_(1);
}

void StridePlayer::put_validation(const Tensor& numbers) {
  put_row(validation_, now_, numbers, rates_.size(0));
}

/// Number of steps from `step` on to play as one: no validation may come between them.
int64_t StridePlayer::unbroken(const Stride& stride, int64_t step) const {
  if (stride.count < kLongStride || step + together_ > stride.count) return 1;
  for (int64_t k = 1; k < together_; ++k) {
    if (stride.validates(step + k)) return 1;
  }
  return together_;
}

StridePlayer::Numbers StridePlayer::play(const Stride& stride) {
  enum Sequences : size_t { kStep, kValidate };
  const int64_t count = stride.count;
  Numbers found;
  playback_->within([&] {
    stride.begin();
    rates_.narrow(0, 0, count)
        .copy_(torch::tensor(stride.rates, torch::kFloat64).view({count, rates_.size(1)}));
    now_.zero_();
    for (int64_t i = 0; i < count;) {
      if (stride.validates(i)) playback_->play(kValidate);
      const int64_t steps = unbroken(stride, i);
      playback_->play(kStep, steps);
      i += steps;
    }
    found = {read_rows(rows_, count), read_rows(validation_, count)};
  });
  return found;
}

void StridePlayer::rewind(const std::function<void()>& begin) {
  playback_->within([&] {
    begin();
    now_.zero_();
  });
}

void StridePlayer::go_on(int64_t count) {
  playback_->within([&] {
    for (int64_t i = 0; i < count; ++i) playback_->play(0);
  });
}

void StridePlayer::timed(int64_t count, double seconds) {
  if (options_.most > 0 || !std::exchange(rehearsed_, true)) return;
  const double wanted = kSeconds * static_cast<double>(count) / std::max(seconds, 1e-9);
  pace_ = std::clamp(static_cast<int64_t>(wanted), int64_t{2}, kMostSteps);
}

}  // namespace cdt::train
