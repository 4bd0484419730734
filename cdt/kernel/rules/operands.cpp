/// Operators that leave a parameter what it is, up to a transposition or a constant factor.
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
  if (!source || call.size() != 2) return std::nullopt;  // with a third argument it is rounded
  const auto divisor = call.constant(1);
  return divisor ? Use(source->times(1 / *divisor)) : std::nullopt;
}

}  // namespace

std::vector<Rule> operands() {
  return {{{"aten::t", "aten::numpy_T", "aten::mT"}, transposition},
          {{"aten::transpose"}, transposition_of_dimensions},
          {{"aten::neg"}, negation},
          {{"aten::mul"}, constant_factor},
          {{"aten::div"}, constant_divisor}};
}

}  // namespace cdt::kernel::rules
