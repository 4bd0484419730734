#include <cdt/kernel/check/pending_checks.h>

#include <utility>

namespace cdt::kernel {

using torch::Tensor;

namespace {

/// Stream number (core/machine/streams.h).
constexpr size_t kChecks = 3;

}  // namespace

void PendingChecks::add(std::vector<Tensor> numbers, Check check) {
  entries_.push_back({std::move(numbers), std::move(check)});
}

void PendingChecks::beside(torch::Device device, std::function<void()> work) {
  if (!device.is_cuda()) return work();
  if (!aside_) aside_ = std::make_unique<Aside>(device, kChecks);
  beside_.push_back(std::move(work));
  aside_->run(beside_.back());
}

void PendingChecks::gather() {
  if (aside_) aside_->join();
  for (const auto& other : others_) other->join();
  beside_.clear();
  std::vector<Tensor> all;
  for (const Entry& entry : entries_) {
    for (const Tensor& number : entry.numbers) {
      all.push_back(number.detach().reshape({-1}).to(torch::kFloat64));
    }
  }
  gathered_ = all.empty() ? Tensor() : torch::cat(all);
}

void PendingChecks::judge() const {
  const Tensor read = gathered_.defined() ? gathered_.cpu() : Tensor();
  const double* values = read.defined() ? read.data_ptr<double>() : nullptr;
  for (const Entry& entry : entries_) {
    entry.check(values);
    for (const Tensor& number : entry.numbers) values += number.numel();
  }
}

void PendingChecks::settle() {
  PendingChecks all = std::exchange(*this, {});
  all.gather();
  all.judge();
}

}  // namespace cdt::kernel
