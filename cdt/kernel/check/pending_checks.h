/// Deferred checks of numbers on a device.
///
/// Reading a number from a GPU waits for all earlier work, so a kernel collects its checks and
/// reads all numbers at once.
#pragma once

#include <cdt/core/machine/streams.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace cdt::kernel {

class PendingChecks {
 public:
  /// Throws if the values of its numbers, in the order given to add(), are wrong.
  using Check = std::function<void(const double* values)>;

  /// The numbers are all entries of some tensors, real or boolean; best float64, on one device.
  void add(std::vector<torch::Tensor> numbers, Check check);
  /// Work that only the checks need; a GPU runs it on another stream. It is kept, with what it
  /// holds, until the numbers are gathered.
  void beside(torch::Device device, std::function<void()> work);
  /// Another stream on which numbers, or their inputs, may still be computed.
  void join_when_gathered(std::shared_ptr<Aside> aside) { others_.push_back(std::move(aside)); }
  /// Reads all numbers, runs all checks in the order added, and clears them. If one throws, the
  /// others are dropped.
  void settle();

  /// The same in two steps, for numbers that are recomputed in place: gather() asks the device to
  /// collect them, judge() reads them and runs the checks, which are kept.
  void gather();
  void judge() const;

 private:
  struct Entry {
    std::vector<torch::Tensor> numbers;
    Check check;
  };
  std::vector<Entry> entries_;
  std::vector<std::function<void()>> beside_;
  std::unique_ptr<Aside> aside_;
  std::vector<std::shared_ptr<Aside>> others_;
  torch::Tensor gathered_;
};

}  // namespace cdt::kernel
