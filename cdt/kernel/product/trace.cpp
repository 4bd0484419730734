#include <cdt/core/error.h>
#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/ntk.h>

#include <cmath>

namespace cdt::kernel {

double ntk_trace(const Model& model, const torch::Tensor& x, const NtkOptions& options) {
  require_samples(x);
  return with_fallback(model, options, [&](CheckedFactors& source) {
    const int64_t samples = x.size(0);
    const auto blocks = source.plan(x, samples, 1).blocks(samples, source.width());
    double trace = 0;
    int64_t done = 0;
    for (const Block& block : blocks) {
      const Factors factors = source.factors_of(x, block);
      source.check(factors);
      for (const FactorGroup& group : factors.groups) trace += exact_trace(group);
      if (options.progress) options.progress(++done, static_cast<int64_t>(blocks.size()));
    }
    if (!std::isfinite(trace)) throw NumericalError(kKernelOverflow);
    return trace;
  });
}

}  // namespace cdt::kernel
