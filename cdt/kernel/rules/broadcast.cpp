#include <cdt/kernel/rules/broadcast.h>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;

/// The parameter's shape with ones in front, to fit the per-sample shape of h (which has `rank`
/// dimensions after b and T). None if the parameter varies along the sample dimension.
std::optional<std::vector<int64_t>> aligned_shape(const Tensor& parameter, int64_t rank) {
  std::vector<int64_t> shape = parameter.sizes().vec();
  while (static_cast<int64_t>(shape.size()) > rank) {
    if (shape.front() != 1) return std::nullopt;
    shape.erase(shape.begin());
  }
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

}  // namespace

std::string broadcast_objection(const Tensor& parameter, size_t rank) {
  if (aligned_shape(parameter, static_cast<int64_t>(rank) - 1)) return {};
  return "it has an entry per sample";
}

Tensor broadcast_rows(const Tensor& G, const Tensor& parameter, double scale) {
  std::vector<int64_t> shape = *aligned_shape(parameter, G.dim() - 3);
  shape.insert(shape.begin(), {G.size(0), G.size(1), 1});
  const Tensor rows = G.sum_to_size(shape).reshape({G.size(0) * G.size(1), -1});
  // Not in place: without a sum these are G itself, which the site before may share.
  return scale == 1 ? rows : rows * scale;
}

}  // namespace cdt::kernel::rules
