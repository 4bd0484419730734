#include <cdt/control/riccati.h>
#include <cdt/control/riccati/detectability.h>
#include <cdt/core/check.h>
#include <cdt/core/tolerance.h>

namespace cdt::control {

using torch::Tensor;

Detectability assess_detectability(const dynamics::Modes& modes, double step_scale,
                                   const Tensor& Q) {
  require_non_negative(step_scale, "step_scale");
  dynamics::require_complete(modes, "detectability");
  const int64_t n = modes.size();
  const Tensor state = require_state_weight(Q, n);
  const Tensor steps = (modes.values * step_scale).cpu();
  const double* s = steps.data_ptr<double>();
  int64_t first = n;
  while (first > 0 && s[first - 1] >= 2) --first;
  const double cut = tol::kUndetected * state.norm().item<double>();
  const Tensor V = modes.vectors.narrow(1, first, n - first);
  const Tensor weights = V.t().mm(state.mm(V)).cpu();
  Detectability result;
  for (int64_t end = n; end > first;) {  // groups of equal eigenvalues, the fastest first
    int64_t begin = end - 1;
    while (begin > first && s[end - 1] - s[begin - 1] <= tol::kEqualModes * s[end - 1]) --begin;
    const int64_t size = end - begin;
    const Tensor block = weights.narrow(0, begin - first, size).narrow(1, begin - first, size);
    const Tensor seen = size == 1 ? block : torch::linalg_eigvalsh(block);
    const int64_t lost = (seen <= cut).sum().item<int64_t>();
    if (lost > 0) {
      if (result.detectable) result.worst_factor = 1 - s[end - 1];
      result.detectable = false;
      result.unseen += lost;
    }
    end = begin;
  }
  return result;
}

}  // namespace cdt::control
