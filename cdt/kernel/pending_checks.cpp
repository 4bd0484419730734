#include <cdt/kernel/pending_checks.h>

#include <utility>

namespace cdt::kernel {

using torch::Tensor;

void PendingChecks::add(std::vector<Tensor> numbers, Check check) {
  entries_.push_back({std::move(numbers), std::move(check)});
}

void PendingChecks::settle() {
  const std::vector<Entry> entries = std::exchange(entries_, {});
  std::vector<Tensor> all;
  for (const Entry& entry : entries) {
    for (const Tensor& number : entry.numbers) {
      all.push_back(number.detach().reshape({-1}).to(torch::kFloat64));
    }
  }
  const Tensor read = all.empty() ? Tensor() : torch::cat(all).cpu();
  const double* values = all.empty() ? nullptr : read.data_ptr<double>();
  for (const Entry& entry : entries) {
    entry.check(values);
    for (const Tensor& number : entry.numbers) values += number.numel();
  }
}

}  // namespace cdt::kernel
