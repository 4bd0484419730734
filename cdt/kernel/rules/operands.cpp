/// Operators whose result is a parameter, or a part of it, up to a transposition or a constant
/// factor.
#include <cdt/kernel/rules/table.h>

namespace cdt::kernel::rules {
namespace {

using Use = std::optional<ParameterUse>;

Use transposition(const Call& call) {
  const Use source = call.parameter(0);
  if (!source || call.tensor(0).dim() != 2) return std::nullopt;
  return source->turned();
}

Use transposition_of_dimensions(const Call& call) {
  if (!call[1].isInt() || !call[2].isInt()) return std::nullopt;
  const bool swaps = (call[1].toInt() - call[2].toInt()) % 2 != 0;
  return swaps ? transposition(call) : std::nullopt;
}

/// Contiguous entries of the parameter in another shape: rows of a matrix, or reshaped ones.
Use part(const Call& call) {
  Use source = call.parameter(0);
  if (!source || source->transposed) return std::nullopt;
  const torch::Tensor& from = call.tensor(0);
  const torch::Tensor& to = call.output();
  if (!to.is_alias_of(from) || !from.is_contiguous() || !to.is_contiguous() || to.numel() == 0) {
    return std::nullopt;
  }
  source->offset += to.storage_offset() - from.storage_offset();
  source->shape = to.sizes().vec();
  return source;
}

/// Copies for each sample, which operators without a rule may take.
Use copies(const Call& call) {
  Use source = call.parameter(0);
  const torch::Tensor& to = call.output();
  if (!source || to.dim() == 0 || to.size(0) != call.samples()) return std::nullopt;
  const torch::Tensor& from = call.tensor(0);
  if (from.dim() == to.dim() && from.size(0) != 1) return std::nullopt;
  source->copied = true;
  return source;
}

Use negation(const Call& call) {
  const Use source = call.parameter(0);
  return source ? Use(source->times(-1)) : std::nullopt;
}

Use constant_factor(const Call& call) {
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Use source = call.parameter(i);
    if (!source) continue;
    if (const auto factor = call.constant(1 - i)) return source->times(*factor);
  }
  return std::nullopt;
}

Use constant_divisor(const Call& call) {
  const Use source = call.parameter(0);
  if (!source || call.size() != 2) return std::nullopt;  // a third argument means rounding
  const auto divisor = call.constant(1);
  return divisor ? Use(source->times(1 / *divisor)) : std::nullopt;
}

}  // namespace

std::vector<Rule> operands() {
  return {{{"aten::t", "aten::numpy_T", "aten::mT"}, transposition},
          {{"aten::transpose"}, transposition_of_dimensions},
          {{"aten::narrow", "aten::slice", "aten::select", "aten::chunk", "aten::split",
            "aten::split_with_sizes", "aten::tensor_split", "aten::unbind", "aten::view",
            "aten::view_as", "aten::reshape", "aten::reshape_as", "aten::flatten",
            "aten::unflatten", "aten::squeeze", "aten::unsqueeze"},
           part},
          {{"aten::expand", "aten::expand_as"}, copies},
          {{"aten::neg"}, negation},
          {{"aten::mul"}, constant_factor},
          {{"aten::div"}, constant_divisor}};
}

}  // namespace cdt::kernel::rules
