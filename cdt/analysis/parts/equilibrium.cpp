#include <cdt/analysis/parts/equilibrium.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>

namespace cdt::analysis {
namespace {

using torch::Tensor;

/// Samples with less than this share of the largest one's part in the gradient are not named.
constexpr double kCarrierShare = 0.1;

std::vector<int64_t> carriers(const Tensor& gradient, int64_t outputs) {
  const Tensor sizes = gradient.view({-1, outputs}).norm(2, 1).cpu();
  const double cut = kCarrierShare * sizes.max().item<double>();
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < sizes.size(0); ++i) {
    if (sizes[i].item<double>() >= cut) rows.push_back(i);
  }
  return rows;
}

}  // namespace

std::string to_string(Equilibrium::Kind kind) {
  switch (kind) {
    case Equilibrium::Kind::kNone:
      return "none";
    case Equilibrium::Kind::kLossMinimum:
      return "loss-minimum";
    case Equilibrium::Kind::kFrozen:
      return "frozen";
    case Equilibrium::Kind::kNullKernel:
      return "null-kernel";
    case Equilibrium::Kind::kNullSpace:
      return "null-space";
  }
  throw InvalidArgument(c10::str("no kind of equilibrium has the number ", static_cast<int>(kind)));
}

Equilibrium classify_equilibrium(const dynamics::Modes& modes, const Tensor& gradient,
                                 double learning_rate, double gradient_scale,
                                 int64_t outputs_per_sample) {
  dynamics::require_complete(modes, "an equilibrium");
  const int64_t n = modes.size();
  require_shape(gradient, {n}, "gradient");
  CDT_REQUIRE(gradient.scalar_type() == torch::kFloat64, "gradient must be float64, got ",
              gradient.scalar_type());
  require_finite(gradient, "gradient");
  require_non_negative(learning_rate, "learning_rate");
  require_non_negative(gradient_scale, "gradient_scale");
  CDT_REQUIRE(outputs_per_sample >= 1 && n % outputs_per_sample == 0, "a kernel of ", n,
              " rows cannot have ", outputs_per_sample, " outputs a sample");

  const Tensor modal = modes.reachable_vectors().t().mv(gradient);
  const double size = gradient.norm().item<double>();
  Equilibrium found;
  found.movement = learning_rate * (modal * modes.reachable_values()).norm().item<double>();
  if (size <= tol::kStationary * gradient_scale) {
    found.kind = Equilibrium::Kind::kLossMinimum;
  } else if (learning_rate == 0) {
    found.kind = Equilibrium::Kind::kFrozen;
  } else if (modes.largest() <= tol::kNullKernel) {
    found.kind = Equilibrium::Kind::kNullKernel;
  } else if (modal.norm().item<double>() <= tol::kUnreachableError * size) {
    found.kind = Equilibrium::Kind::kNullSpace;
    found.rows = carriers(gradient, outputs_per_sample);
  }
  return found;
}

}  // namespace cdt::analysis
