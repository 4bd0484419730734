#include <cdt/kernel/replay/plan_memory.h>
#include <cdt/kernel/replay/recorded_kernel.h>

#include <algorithm>

namespace cdt::kernel {

PlanMemory::PlanMemory() = default;
PlanMemory::~PlanMemory() = default;

std::optional<KnownPlan> PlanMemory::find(const PlanKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(plans_, key, &std::pair<PlanKey, KnownPlan>::first);
  return it == plans_.end() ? std::nullopt : std::optional(it->second);
}

void PlanMemory::keep(PlanKey key, KnownPlan plan) {
  constexpr size_t kMost = 16;
  const std::lock_guard lock(mutex_);
  std::erase_if(plans_, [&](const auto& known) { return known.first == key; });
  if (plans_.size() == kMost) plans_.erase(plans_.begin());
  plans_.emplace_back(std::move(key), std::move(plan));
}

void PlanMemory::forget() {
  const std::lock_guard lock(mutex_);
  plans_.clear();
  transposes_ = false;
}

}  // namespace cdt::kernel
