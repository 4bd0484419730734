#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/data/rows/conflicts.h>

#include <numeric>
#include <string_view>

namespace cdt::data {

void RowHashes::add(const torch::Tensor& features) {
  const torch::Tensor rows = features.contiguous();
  const auto count = static_cast<size_t>(rows.size(0));
  const size_t width = count > 0 ? rows.nbytes() / count : 0;
  const auto* bytes = static_cast<const char*>(rows.data_ptr());
  hashes_.reserve(hashes_.size() + count);
  for (size_t i = 0; i < count; ++i) {
    hashes_.push_back(std::hash<std::string_view>()({bytes + i * width, width}));
  }
}

std::vector<std::vector<int64_t>> RowHashes::suspects(int64_t most) const {
  std::vector<int64_t> order(hashes_.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto hash = [&](size_t i) { return hashes_[static_cast<size_t>(order[i])]; };
  std::ranges::sort(order, {}, [&](int64_t row) { return hashes_[static_cast<size_t>(row)]; });
  std::vector<std::vector<int64_t>> parts;
  for (size_t first = 0, end = 0; first < order.size(); first = end) {
    for (end = first + 1; end < order.size() && hash(end) == hash(first);) ++end;
    if (end - first < 2) continue;
    if (parts.empty() || static_cast<int64_t>(parts.back().size()) >= most) parts.emplace_back();
    parts.back().insert(parts.back().end(), order.begin() + static_cast<ptrdiff_t>(first),
                        order.begin() + static_cast<ptrdiff_t>(end));
  }
  for (auto& part : parts) std::ranges::sort(part);
  return parts;
}

std::vector<Conflict> find_conflicts(const torch::Tensor& features, const torch::Tensor& targets) {
  CDT_REQUIRE(features.dim() == 2 && features.scalar_type() == torch::kFloat64,
              "features must be [r, f] and float64, got ", features.sizes(), " ",
              features.scalar_type());
  require_shape(targets, {features.size(0), -1}, "targets");
  const torch::Tensor rows = features.cpu().contiguous();
  const auto width = static_cast<size_t>(rows.size(1)) * sizeof(double);
  const auto* bytes = static_cast<const char*>(rows.data_ptr());
  const auto row = [&](int64_t i) {
    return std::string_view(bytes + static_cast<size_t>(i) * width, width);
  };
  std::vector<Conflict> conflicts;
  for (auto& members : group_equal(
           rows.size(0), [&](int64_t i) { return std::hash<std::string_view>()(row(i)); },
           [&](int64_t a, int64_t b) { return row(a) == row(b); })) {
    const torch::Tensor values =
        targets.cpu().to(torch::kFloat64).index_select(0, torch::tensor(members, torch::kInt64));
    const torch::Tensor gaps = std::get<0>(values.max(0)) - std::get<0>(values.min(0));
    if (!(gaps > 0).any().item<bool>()) continue;
    conflicts.push_back({std::move(members),
                         {},
                         {gaps.data_ptr<double>(), gaps.data_ptr<double>() + gaps.numel()}});
  }
  return conflicts;
}

}  // namespace cdt::data
