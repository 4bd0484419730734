/// Checks of numbers that are still being computed, made together.
///
/// To read a number from a GPU is to wait for all work before it, so a kernel asks its questions as
/// it goes and reads the answers once.
#pragma once

#include <cdt/core/machine/streams.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace cdt::kernel {

class PendingChecks {
 public:
  /// Throws if the values of the numbers that it was added with, in their order, are wrong.
  using Check = std::function<void(const double* values)>;

  /// The numbers are all entries of some tensors, real or boolean; best float64, on one device.
  void add(std::vector<torch::Tensor> numbers, Check check);
  /// Work for numbers that nothing else waits for: a GPU does it beside what it is asked for next.
  /// It is kept, with what it holds, until the numbers are gathered.
  void beside(torch::Device device, std::function<void()> work);
  /// Numbers, or what they are made from, may still be computed there.
  void join_when_gathered(std::shared_ptr<Aside> aside) { others_.push_back(std::move(aside)); }
  /// Reads all numbers and makes all checks, in the order in which they were added, and is empty
  /// then. Those that follow one that throws are dropped.
  void settle();

  /// The same in two steps, for numbers that are computed again where they are: the first asks the
  /// device to put them beside each other, the second reads them and makes the checks, which stay.
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
