#include <cdt/kernel/rules/broadcast.h>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;

/// The operand's shape with leading ones, to fit the last `rank` dimensions of h. None if it varies
/// along those before.
std::optional<std::vector<int64_t>> aligned_shape(c10::IntArrayRef operand, int64_t rank) {
  std::vector<int64_t> shape = operand.vec();
  while (static_cast<int64_t>(shape.size()) > rank) {
    if (shape.front() != 1) return std::nullopt;
    shape.erase(shape.begin());
  }
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

}  // namespace

std::string broadcast_objection(c10::IntArrayRef shape, size_t rank, int64_t sample_dimension) {
  if (aligned_shape(shape, static_cast<int64_t>(rank) - 1 - sample_dimension)) return {};
  return "it has an entry per sample";
}

Tensor broadcast_rows(const Tensor& G, c10::IntArrayRef operand, double scale) {
  std::vector<int64_t> shape = *aligned_shape(operand, G.dim() - 3);
  shape.insert(shape.begin(), {G.size(0), G.size(1), 1});
  const Tensor rows = G.sum_to_size(shape).reshape({G.size(0) * G.size(1), -1});
  // Not in place: without a sum this is G itself, which the previous site may share.
  return scale == 1 ? rows : rows * scale;
}

}  // namespace cdt::kernel::rules
