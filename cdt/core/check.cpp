/// The named checks: a cheap reduction first; the search for the offending entry only on failure.
#include "cdt/core/check.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <vector>

#include "cdt/core/error.h"
#include "cdt/core/tolerance.h"

namespace cdt {
namespace {

/// Shortest decimal that reads back as the same number, so that distinct entries print differently.
std::string number(double value) {
  if (std::isnan(value)) return "nan";  // Never "-nan".
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  return {digits, end};
}

/// The row-major position `flat` as one index per dimension.
std::vector<int64_t> unravel(int64_t flat, c10::IntArrayRef shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
  return index;
}

double entry(torch::Tensor tensor, const std::vector<int64_t>& index) {
  for (const int64_t i : index) tensor = tensor.select(0, i);
  return tensor.item<double>();
}

/// Tensors on the meta device have no entries to check.
void require_dense(const torch::Tensor& tensor, std::string_view name) {
  CDT_REQUIRE(tensor.defined(), name, " must be a dense tensor, got an undefined one");
  CDT_REQUIRE(tensor.layout() == torch::kStrided && !tensor.is_meta(), name,
              " must be a dense tensor, got layout ", tensor.layout(), " on ", tensor.device());
}

std::string pattern(c10::IntArrayRef shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(size == -1 ? "any" : std::to_string(size));
  return "[" + c10::Join(", ", sizes) + "]";
}

}  // namespace

void require_floating(const torch::Tensor& tensor, std::string_view name) {
  require_dense(tensor, name);
  CDT_REQUIRE(at::isFloatingType(tensor.scalar_type()), name,
              " must be a floating-point tensor, got dtype ", tensor.scalar_type());
}

void require_finite(const torch::Tensor& tensor, std::string_view name) {
  require_dense(tensor, name);
  if (at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true)) return;
  require_floating(tensor, name);
  // A non-finite entry always makes the sum non-finite, and the sum needs no temporary. The sum may
  // also overflow by itself, so the entries are checked then.
  const torch::Tensor values = tensor.detach();
  if (std::isfinite(values.sum().item<double>())) return;
  const torch::Tensor bad = torch::isfinite(values).logical_not_().flatten();
  if (!bad.any().item<bool>()) return;
  const auto first = unravel(bad.to(torch::kUInt8).argmax().item<int64_t>(), values.sizes());
  throw InvalidArgument(c10::str(name, " must be finite, but its entry ", c10::IntArrayRef(first),
                                 " is ", number(entry(values, first))));
}

void require_shape(const torch::Tensor& tensor, c10::IntArrayRef shape, std::string_view name) {
  CDT_REQUIRE(tensor.defined(), name, " must have shape ", pattern(shape),
              ", got an undefined one");
  bool matches = tensor.dim() == static_cast<int64_t>(shape.size());
  for (size_t d = 0; matches && d < shape.size(); ++d) {
    matches = shape[d] == -1 || shape[d] == tensor.sizes()[d];
  }
  CDT_REQUIRE(matches, name, " must have shape ", pattern(shape), ", got shape ", tensor.sizes());
}

void require_square(const torch::Tensor& tensor, std::string_view name) {
  require_dense(tensor, name);
  CDT_REQUIRE(tensor.dim() == 2 && tensor.size(0) == tensor.size(1) && tensor.size(0) > 0, name,
              " must be a non-empty square matrix, got shape ", tensor.sizes());
  CDT_REQUIRE(tensor.scalar_type() == torch::kFloat64, name, " must be float64, got dtype ",
              tensor.scalar_type());
  require_finite(tensor, name);
}

void require_kernel(const torch::Tensor& theta) {
  require_square(theta, "kernel");
  const auto [lowest, highest] = torch::aminmax(theta.detach());
  const double largest = std::max(-lowest.item<double>(), highest.item<double>());
  CDT_REQUIRE(largest <= tol::kLargestEntry, "kernel must have no entry beyond ",
              number(tol::kLargestEntry), ", where squares overflow; its largest is ",
              number(largest), ". Scale outputs or parameters");
}

void require_symmetric(const torch::Tensor& tensor, std::string_view name, double tolerance) {
  require_square(tensor, name);
  const torch::Tensor values = tensor.detach();
  const auto [lowest, highest] = torch::aminmax(values);
  const double scale = std::max(-lowest.item<double>(), highest.item<double>());
  const torch::Tensor gap = (values - values.t()).abs_().flatten();
  const int64_t worst = gap.argmax().item<int64_t>();
  if (gap[worst].item<double>() <= tolerance * scale) return;
  const int64_t n = values.size(0);
  const int64_t i = worst / n, j = worst % n;
  throw InvalidArgument(c10::str(name, " must be symmetric within ", number(tolerance),
                                 " of its largest entry ", number(scale), ", but its entry [", i,
                                 ", ", j, "] is ", number(entry(values, {i, j})), " and [", j, ", ",
                                 i, "] is ", number(entry(values, {j, i}))));
}

void require_distributions(const torch::Tensor& tensor, std::string_view name) {
  require_finite(tensor, name);
  const double lowest = tensor.min().item<double>();
  CDT_REQUIRE(lowest >= 0, name, " must be distributions over classes, but the smallest entry is ",
              number(lowest));
  const double gap = (tensor.sum(1) - 1).abs().max().item<double>();
  CDT_REQUIRE(gap <= tol::kDistribution, name, " of each sample must sum to 1, but one is off by ",
              number(gap));
}

void require_positive(double value, std::string_view name) {
  CDT_REQUIRE(std::isfinite(value) && value > 0, name, " must be a finite number above zero, got ",
              number(value));
}

void require_non_negative(double value, std::string_view name) {
  CDT_REQUIRE(std::isfinite(value) && value >= 0, name,
              " must be a finite number, zero or above, got ", number(value));
}

}  // namespace cdt
