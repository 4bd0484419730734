#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/train/loop/draws.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <vector>

namespace cdt::train {

torch::Tensor draw_rows(int64_t all, int64_t count, uint64_t seed) {
  CDT_REQUIRE(count >= 0 && count <= all, "expected to draw at most ", all,
              " rows, which is all there are, got ", count);
  const auto made = at::detail::createCPUGenerator(seed);
  auto* const generator = at::check_generator<at::CPUGeneratorImpl>(made);
  const bool wide = all > std::numeric_limits<uint32_t>::max();
  std::unordered_map<int64_t, int64_t> moved;  // entries that moved to other places
  const auto at = [&](int64_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t draw = wide ? generator->random64() : generator->random();
    const int64_t place = i + static_cast<int64_t>(draw % static_cast<uint64_t>(all - i));
    drawn.push_back(at(place));
    moved[place] = at(i);
    moved.erase(i);  // not read again
  }
  std::ranges::sort(drawn);
  return torch::tensor(drawn, torch::kInt64);
}

}  // namespace cdt::train
