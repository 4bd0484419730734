/// What strides of one run (stride.h) and of several at once (together.h) have in common: steps
/// that are played on the device, whose rates come from a table there and whose numbers stay there
/// until all of them are read.
#pragma once

#include <cdt/core/error.h>
#include <cdt/kernel/playback.h>

#include <cstdint>
#include <optional>

namespace cdt::train {

struct StrideOptions {
  /// Steps between two looks; 0: on a GPU as many as take some twentieth of a second, at most 256;
  /// elsewhere, where looking is free, 1.
  int64_t most = 0;
  /// Steps on a GPU are recorded as a CUDA graph, and played back.
  bool record = true;
};

/// Of the streams (core/machine/streams.h): numbers for the history are none that a step waits for.
inline constexpr size_t kNumbersStream = 2;

class StridePlayer {
 public:
  StridePlayer(torch::Device device, const StrideOptions& options);

  /// From now on a step is `step` and a validation `validate`, on tensors that stay where they are;
  /// `left` of those steps are to come.
  /// @throws InvalidArgument if a stride is to have less than no steps.
  void prepare(kernel::Sequence step, kernel::Sequence validate, int64_t rates, int64_t left);

  /// Within a step: its rates [rates], float64.
  torch::Tensor rates() const;
  /// Within a step: its numbers [k], float64; the next step is the next row.
  void put(const torch::Tensor& numbers);
  /// Within a validation, likewise, of the step that it comes before.
  void put_validation(const torch::Tensor& numbers);

  struct Stride {
    int64_t count = 0;
    std::vector<double> rates;                    ///< [count, rates]
    std::function<bool(int64_t step)> validates;  ///< before step 0, 1, … of the stride
    std::function<void()> begin = [] {};          ///< on the device's way, before the first
  };
  /// The numbers of each step; validation's mean nothing where there was none.
  struct Numbers {
    std::vector<std::vector<double>> steps, validations;
  };
  Numbers play(const Stride& stride);
  /// Does `begin`, which takes parameters back to where the last stride began.
  void rewind(const std::function<void()>& begin);
  /// N steps of the last stride again, after `rewind`.
  void go_on(int64_t count);

  /// Steps that the next stride may have, as long as they take, if nothing else limits them.
  int64_t pace() const { return pace_; }
  /// How long a stride took, for the pace of the next.
  void timed(int64_t count, double seconds);

 private:
  int64_t unbroken(const Stride& stride, int64_t step) const;

  torch::Device device_;
  StrideOptions options_;
  int64_t pace_;
  bool rehearsed_ = false;    ///< the first stride is not timed
  int64_t together_ = 1;      ///< steps that are played as one
  torch::Tensor rates_;       ///< [capacity, rates]
  torch::Tensor now_;         ///< [1]: which step it is
  torch::Tensor rows_;        ///< [capacity, k]: the numbers of each; k is known after the first
  torch::Tensor validation_;  ///< [capacity, k] likewise
  std::unique_ptr<kernel::Playback> playback_;
};

}  // namespace cdt::train
