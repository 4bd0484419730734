#include <cdt/control/riccati/modal_residual.h>
#include <cdt/core/check.h>

#include <algorithm>
#include <cmath>

namespace cdt::control {

using torch::Tensor;

namespace {

constexpr int64_t kResidualColumns = 512;

}  // namespace

double riccati_residual(const dynamics::Modes& modes, const Tensor& steps, const Tensor& w,
                        const Tensor& gain, const Tensor& weights, double step_scale,
                        double decay_step, const Tensor& theta) {
  require_kernel(theta);
  require_shape(theta, {modes.size(), modes.size()}, "kernel");
  const int64_t rank = modes.rank;
  if (rank == 0) return 0;
  const int64_t first = modes.nullity();
  const auto reachable = [&](const Tensor& t) { return t.narrow(0, first, rank); };
  const Tensor V = modes.reachable_vectors();
  const Tensor s = reachable(steps);
  const Tensor steering = reachable(gain);
  // The sizes of P, A and A − BK = I − SG before they cancel. What follows is divided by them at
  // once, so that no square overflows.
  const Tensor costs = reachable(w) / s;
  const double largest = costs.max().item<double>();
  const double cost = largest * (costs / largest).norm().item<double>();
  const double growth = 1 + (1 - s).abs().max().item<double>();
  const double loop = 1 + s.max().item<double>() * steering.max().item<double>();
  const Tensor p = costs / cost;
  const Tensor q = reachable(weights) / cost;
  // AV, with A from Θ; P, Q and G act on columns of V by their eigenvalues. Then the columns of the
  // residual times V:
  Tensor moved = theta.mm(V).mul_(step_scale);
  if (decay_step > 0) moved.add_(V, decay_step);
  const Tensor AV = (V - moved).div_(growth);
  double squares = 0;
  for (int64_t j = 0; j < rank; j += kResidualColumns) {
    const int64_t count = std::min(kResidualColumns, rank - j);
    const Tensor Vj = V.narrow(1, j, count);
    const Tensor g = steering.narrow(0, j, count) / loop;
    const Tensor closed = Vj * (1 / loop - g) + AV.narrow(1, j, count) * (g * growth);  // (I − SG)V
    const Tensor residual = Vj * ((p - q).narrow(0, j, count) / (growth * loop)) -
                            AV.mm(V.t().mm(closed).mul_(p.unsqueeze(1)));
    squares += residual.square().sum().item<double>();
  }
  return std::sqrt(squares);
}

}  // namespace cdt::control
