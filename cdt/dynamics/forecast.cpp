#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/forecast.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace cdt::dynamics {
namespace {

using torch::Tensor;

/// Numbers in a block of predicted modes, 8 MiB: small enough for the last cache over about ten
/// passes, large enough for threads that synchronize after every pass.
constexpr int64_t kBlock = int64_t{1} << 20;

void require_vector(const Tensor& values, int64_t n, std::string_view name) {
  require_floating(values, name);
  require_shape(values, {n}, name);
  CDT_REQUIRE(values.scalar_type() == torch::kFloat64, name, " must be float64, got ",
              values.scalar_type());
  require_finite(values, name);
}

/// The stopping steps, even ones first, and the place of each given step among them.
struct Stops {
  std::vector<int64_t> steps;
  std::vector<int64_t> place;
  int64_t even = 0;
};

Stops even_first(const std::vector<int64_t>& steps) {
  Stops stops;
  stops.place.resize(steps.size());
  for (const int64_t parity : {0, 1}) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i] % 2 != parity) continue;
      stops.place[i] = static_cast<int64_t>(stops.steps.size());
      stops.steps.push_back(steps[i]);
    }
    if (parity == 0) stops.even = static_cast<int64_t>(stops.steps.size());
  }
  return stops;
}

/// (1 − h)ᵏ − 1 [C, T, rank], accurate for small h: the even power below k, which has no sign, and
/// one more step if k is odd.
Tensor lost_at_constant_rate(const Tensor& h, const Stops& stops) {
  constexpr double kLogOfZero = -1e300;
  const Tensor k = torch::tensor(stops.steps, h.options()).view({1, -1, 1});
  const Tensor log_size =
      torch::where(h < 1, torch::log1p(-h), torch::log(h - 1)).clamp_min(kLogOfZero).unsqueeze(1);
  Tensor lost = ((k - k.remainder(2)) * log_size).expm1_();
  const Tensor odd = lost.narrow(1, stops.even, lost.size(1) - stops.even);
  const Tensor step = h.unsqueeze(1);
  odd.mul_(1 - step).sub_(step);
  return lost;
}

/// Π_{j<k}(1 − d_j h) − 1 [C, T, rank], step by step.
Tensor lost_at_decaying_rate(const Tensor& h, const std::vector<int64_t>& steps, double decay) {
  Tensor lost = torch::zeros_like(h);
  std::vector<Tensor> stops;
  int64_t k = 0;
  for (const int64_t stop : steps) {
    for (; k < stop; ++k) {
      const double d = 1 / (1 + decay * static_cast<double>(k));
      lost.addcmul_(lost, h, -d).sub_(h, d);  // (1 − dh)(1 + l) − 1
    }
    stops.push_back(lost.clone());
  }
  return torch::stack(stops, 1);
}

Tensor infinite_unless_finite(const Tensor& losses) {
  return torch::where(torch::isfinite(losses), losses,
                      torch::full_like(losses, std::numeric_limits<double>::infinity()));
}

}  // namespace

ModalProblem modal_problem(const Modes& modes, const Tensor& error) {
  require_complete(modes, "a forecast");
  require_vector(error, modes.size(), "error");
  ModalProblem problem;
  problem.size = modes.size();
  problem.values = modes.reachable_values();
  problem.error = modes.reachable_vectors().t().mv(error);
  problem.stuck = modes.null_vectors().t().mv(error).square().sum().item<double>();
  return problem;
}

ModalProblem modal_problem(const Modes& modes, const Tensor& error, const Tensor& cross_kernel,
                           const Tensor& validation_error) {
  ModalProblem problem = modal_problem(modes, error);
  require_shape(cross_kernel, {-1, problem.size}, "cross_kernel");
  const int64_t m = cross_kernel.size(0);
  CDT_REQUIRE(m > 0, "cross_kernel has no rows: there is nothing to validate on");
  CDT_REQUIRE(cross_kernel.scalar_type() == torch::kFloat64, "cross_kernel must be float64, got ",
              cross_kernel.scalar_type());
  require_finite(cross_kernel, "cross_kernel");
  require_vector(validation_error, m, "validation_error");
  problem.validation_size = m;
  problem.transfer = cross_kernel.mm(modes.reachable_vectors()) * (problem.error / problem.values);
  problem.validation_error = validation_error;
  if (m > modes.rank && modes.rank > 0) {
    // Norms need no more coordinates than modes.
    const auto [basis, coordinates] = torch::linalg_qr(problem.transfer);
    problem.transfer = coordinates;
    problem.validation_error = basis.t().mv(validation_error);
    problem.validation_stuck =
        (validation_error - basis.mv(problem.validation_error)).square().sum().item<double>();
  }
  return problem;
}

Curves predict_curves(const ModalProblem& problem, const Tensor& contraction,
                      const std::vector<int64_t>& steps, const loss::LossPtr& loss, double decay) {
  const int64_t rank = problem.values.size(0);
  require_floating(contraction, "contraction");
  require_shape(contraction, {-1, rank}, "contraction");
  CDT_REQUIRE(contraction.scalar_type() == torch::kFloat64, "contraction must be float64, got ",
              contraction.scalar_type());
  require_finite(contraction, "contraction");
  CDT_REQUIRE(contraction.numel() == 0 || contraction.min().item<double>() >= 0,
              "contraction must not be negative; its smallest entry is ",
              contraction.min().item<double>());
  require_non_negative(decay, "decay");
  CDT_REQUIRE(!steps.empty() && steps.front() >= 1, "steps must start at 1 or later");
  CDT_REQUIRE(std::is_sorted(steps.begin(), steps.end(), std::less_equal<>()),
              "steps must be ascending");

  const int64_t grid = contraction.size(0);
  CDT_REQUIRE(grid > 0, "contraction has no rows: there is nothing to predict");
  const auto stops = static_cast<int64_t>(steps.size());
  const bool validate = problem.validation_size > 0;
  const double scale = 0.5 * loss::gradient_factor(loss, problem.size);
  const Tensor squares = problem.error.square();
  const Stops ordered = even_first(steps);
  const int64_t rows = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, stops * rank));
  std::vector<Tensor> train;
  std::vector<Tensor> validation;
  for (int64_t first = 0; first < grid; first += rows) {
    const Tensor h = contraction.narrow(0, first, std::min(rows, grid - first));
    Tensor lost = decay > 0 ? lost_at_decaying_rate(h, steps, decay)
                            : lost_at_constant_rate(h, ordered);  // [C, T, rank]
    if (validate) {
      const Tensor left = lost.matmul(problem.transfer.t()).add_(problem.validation_error);
      const double factor = 0.5 * loss::gradient_factor(loss, problem.validation_size);
      validation.push_back(factor * (left.square_().sum(2) + problem.validation_stuck));
    }
    train.push_back(scale * (lost.add_(1).square_().matmul(squares) + problem.stuck));
  }
  const auto gather = [&](const std::vector<Tensor>& blocks) {
    Tensor losses = torch::cat(blocks);
    if (decay == 0) {
      const Tensor place = torch::tensor(ordered.place, torch::kInt64).to(losses.device());
      losses = losses.index_select(1, place);
    }
    return infinite_unless_finite(losses);
  };
  Curves curves;
  curves.train = gather(train);
  if (validate) curves.validation = gather(validation);
  return curves;
}

std::vector<int64_t> log_spaced_steps(int64_t count, int64_t last) {
  CDT_REQUIRE(count >= 2, "count must be at least 2, got ", count);
  CDT_REQUIRE(last >= 1, "the last step must be at least 1, got ", last);
  std::vector<int64_t> steps;
  for (int64_t i = 0; i < std::min(count, last); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(count - 1);
    const int64_t step = std::llround(std::pow(static_cast<double>(last), share));
    steps.push_back(steps.empty() ? step : std::max(step, steps.back() + 1));
  }
  return steps;
}

}  // namespace cdt::dynamics
