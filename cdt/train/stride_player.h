/// Plays steps on the device, for strides of one run (stride.h) or of several (together.h).
/// Learning rates come from a table on the device, and results stay there until all are read.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/playback.h>

#include <cstdint>
#include <optional>

namespace cdt::train {

struct StrideOptions {
  /// Steps between two reads. Default (0): on a GPU, as many as take about a twentieth of a second,
  /// at most 256; elsewhere, where reading costs nothing, 1.
  int64_t most = 0;
  /// Record the steps on a GPU as a CUDA graph and replay it.
  bool record = true;
};

/// Index of a stream (core/machine/streams.h) for history numbers, which no step has to wait for.
inline constexpr size_t kNumbersStream = 2;

class StridePlayer {
 public:
  /// @throws InvalidArgument if `most` is negative.
  StridePlayer(torch::Device device, const StrideOptions& options);

  /// Sets the operations of a step and of a validation; their tensors must keep their addresses.
  /// `left` such steps remain in the run.
  void prepare(kernel::Sequence step, kernel::Sequence validate, int64_t rates, int64_t left);

  /// Within a step: its learning rates [rates], float64.
  torch::Tensor rates() const;
  /// Within a step: stores its numbers [k], float64, and advances to the next row.
  void put(const torch::Tensor& numbers);
  /// Within a validation: stores its numbers with those of the step that follows.
  void put_validation(const torch::Tensor& numbers);

  struct Stride {
    int64_t count = 0;
    std::vector<double> rates;                    ///< [count, rates]
    std::function<bool(int64_t step)> validates;  ///< before step 0, 1, … of the stride
    std::function<void()> begin = [] {};          ///< runs on the device before the first step
  };
  /// The numbers of each step; validation numbers are undefined for steps without validation.
  struct Numbers {
    std::vector<std::vector<double>> steps, validations;
  };
  Numbers play(const Stride& stride);
  /// Runs `begin`, which resets the parameters to the start of the last stride.
  void rewind(const std::function<void()>& begin);
  /// Takes `count` steps of the last stride again, after `rewind`.
  void go_on(int64_t count);

  /// Steps for the next stride, judged by time, if nothing else limits them.
  int64_t pace() const { return pace_; }
  /// Reports how long a stride took, to set the length of the next.
  void timed(int64_t count, double seconds);

 private:
  int64_t unbroken(const Stride& stride, int64_t step) const;

  torch::Device device_;
  StrideOptions options_;
  int64_t pace_;
  bool rehearsed_ = false;    ///< the first stride is not timed
  int64_t together_ = 1;      ///< steps that are played as one
  torch::Tensor rates_;       ///< [capacity, rates]
  torch::Tensor now_;         ///< [1]: index of the current step
  torch::Tensor rows_;        ///< [capacity, k]: numbers of each step; k is known after the first
  torch::Tensor validation_;  ///< [capacity, k] likewise
  std::unique_ptr<kernel::Playback> playback_;
};

}  // namespace cdt::train
