#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/data/conflicts.h>

#include <string_view>

namespace cdt::data {

std::vector<Conflict> find_conflicts(const torch::Tensor& features, const torch::Tensor& targets) {
  CDT_REQUIRE(features.dim() == 2 && features.scalar_type() == torch::kFloat64,
              "features must be [r, f] and float64, not ", features.sizes(), " ",
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
