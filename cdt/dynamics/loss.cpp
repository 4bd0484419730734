#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/loss.h>

#include <array>

namespace cdt::dynamics {
namespace {
constexpr std::array<std::pair<std::string_view, Loss>, 3> kNames{
    {{"sse", Loss::kSse}, {"half-mse", Loss::kHalfMse}, {"mse", Loss::kMse}}};
}  // namespace

Loss parse_loss(std::string_view name) {
  for (const auto& [known, loss] : kNames) {
    if (known == name) return loss;
  }
  throw InvalidArgument(c10::str("loss must be sse, half-mse or mse, not '", name, "'"));
}

std::string to_string(Loss loss) {
  for (const auto& [name, known] : kNames) {
    if (known == loss) return std::string(name);
  }
  throw InvalidArgument(c10::str("no loss has the number ", static_cast<int>(loss)));
}

double gradient_factor(Loss loss, int64_t n) {
  CDT_REQUIRE(n >= 1, "a loss needs at least one output, not ", n);
  switch (loss) {
    case Loss::kSse:
      return 1.0;
    case Loss::kHalfMse:
      return 1.0 / static_cast<double>(n);
    case Loss::kMse:
      return 2.0 / static_cast<double>(n);
  }
  throw InvalidArgument(c10::str("no loss has the number ", static_cast<int>(loss)));
}

double loss_value(Loss loss, const torch::Tensor& error) {
  require_floating(error, "error");
  require_finite(error, "error");
  // All three are ½ c_L ‖e‖².
  return 0.5 * gradient_factor(loss, error.numel()) *
         error.to(torch::kFloat64).square().sum().item<double>();
}

}  // namespace cdt::dynamics
