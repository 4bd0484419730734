#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/text/names.h>
#include <cdt/dynamics/loss.h>

namespace cdt::dynamics {
namespace {

constexpr Names<Loss, 6> kLossNames{{{"sse", Loss::kSse},
                                     {"half-mse", Loss::kHalfMse},
                                     {"mse", Loss::kMse},
                                     {"mae", Loss::kMae},
                                     {"cross-entropy", Loss::kCrossEntropy},
                                     {"negative-log", Loss::kNegativeLog}}};

}  // namespace

Loss parse_loss(std::string_view name) { return parse_name(kLossNames, name, "loss"); }

std::string to_string(Loss loss) { return name_of(kLossNames, loss); }

bool is_quadratic(Loss loss) {
  return loss == Loss::kSse || loss == Loss::kHalfMse || loss == Loss::kMse;
}

void require_quadratic(Loss loss, std::string_view who) {
  CDT_REQUIRE(is_quadratic(loss), who, " needs a quadratic loss (sse, half-mse or mse), not ",
              to_string(loss));
}

double gradient_factor(Loss loss, int64_t n) {
  CDT_REQUIRE(n >= 1, "a loss needs at least one output, not ", n);
  require_quadratic(loss, "the gradient's factor c_L");
  switch (loss) {
    case Loss::kSse:
      return 1.0;
    case Loss::kHalfMse:
      return 1.0 / static_cast<double>(n);
    default:
      return 2.0 / static_cast<double>(n);
  }
}

double step_scale(double learning_rate, Loss loss, int64_t n) {
  require_non_negative(learning_rate, "learning_rate");
  return learning_rate * gradient_factor(loss, n);
}

double loss_value(Loss loss, const torch::Tensor& error) {
  require_quadratic(loss, "½c_L‖e‖²");
  require_floating(error, "error");
  require_finite(error, "error");
  return 0.5 * gradient_factor(loss, error.numel()) *
         error.to(torch::kFloat64).square().sum().item<double>();
}

}  // namespace cdt::dynamics
