// The pre-flight of a kernel that is too large to be formed, from products with it.
#include <cdt/analysis/parts/examine.h>
#include <cdt/core/check.h>
#include <cdt/core/machine/speed.h>
#include <cdt/core/tolerance.h>

#include <algorithm>
#include <cmath>

namespace cdt::analysis {

using control::Known;
using torch::Tensor;

namespace {

/// Leading modes. More of them lie a decade below λ_max, and with less trace in the rest the bound
/// on λ_max is tight.
constexpr int64_t kLeadingModes = 12;
constexpr int64_t kLanczosBlock = 8;
/// Products of a float32 network have some six digits.
constexpr double kModeTolerance = 1e-4;
constexpr int64_t kRestarts = 6;
constexpr int kDecades = 8;
/// Entries of all probes together. The error of an estimated trace falls with their number, so long
/// probes need not be many.
constexpr int64_t kEntriesOfProbes = 160'000;
constexpr int64_t kLeastProbes = 3;  // a spread of fewer says little

/// Counts products, and reports them.
class Counted {
 public:
  Counted(const ProductKernel& kernel, int64_t expected) : kernel_(kernel), expected_(expected) {}

  Tensor operator()(const Tensor& columns) {
    count_ += columns.size(1);
    if (kernel_.progress) kernel_.progress(std::min(count_, expected_), expected_);
    return kernel_.times(columns);
  }
  int64_t count() const { return count_; }

 private:
  const ProductKernel& kernel_;
  int64_t expected_;
  int64_t count_ = 0;
};

dynamics::LanczosOptions lanczos_of(const ProductKernel& kernel, int64_t n) {
  dynamics::LanczosOptions lanczos;
  lanczos.modes = std::min(kLeadingModes, n);
  lanczos.block = kLanczosBlock;
  lanczos.tolerance = kModeTolerance;
  lanczos.max_restarts = kRestarts;
  lanczos.device = kernel.device;
  // Products round in the network's precision; the trace must not seem less than the modes.
  lanczos.trace = kernel.trace * (1 + tol::epsilon(kernel.network_dtype) * 64);
  lanczos.rank_tolerance = tol::rank_of_computed(n, kernel.network_dtype);
  return lanczos;
}

/// Eigenvalues of a principal part of Θ lie below those of Θ, one by one: Θ has at least as many
/// above the tolerance.
Known bound_rank(const ProductKernel& kernel, const Preflight& found) {
  const double zero =
      tol::rank_of_computed(found.n, kernel.network_dtype) * found.spectrum.largest.upper;
  const auto least = (torch::linalg_eigvalsh(kernel.part) > zero).sum().item<int64_t>();
  const int64_t most =
      std::min((kernel.samples - kernel.equal_rows) * kernel.outputs, kernel.parameters);
  if (least == most) return Known::exactly(static_cast<double>(most));
  return Known::within(static_cast<double>(least), static_cast<double>(most));
}

void describe_spectrum(const dynamics::SpectralQuadrature& spectrum, const Known& largest,
                       ByProducts& found) {
  const double mean = found.trace / static_cast<double>(spectrum.n);
  const auto square = spectrum.trace([](const Tensor& at) { return at.square(); });
  const double rank = found.trace * found.trace / square.value;
  found.effective_rank = {rank, rank * square.error / square.value};
  for (const double decay : {10.0, 1.0, 0.1, 0.01, 0.001}) {
    const double tau = decay * mean;
    found.freedom.push_back(
        {decay, spectrum.trace([tau](const Tensor& at) { return at / (at + tau); })});
  }
  const double top = largest.upper * (1 + tol::kEpsilon64);
  for (int decade = 1; decade <= kDecades; ++decade) {
    const double from = std::pow(10.0, -decade);
    const double low = from * largest.lower;
    const double high = decade == 1 ? 2 * top : 10 * low;
    found.density.push_back({from, spectrum.trace([low, high](const Tensor& at) {
                               return (at >= low).logical_and(at < high).to(torch::kFloat64);
                             })});
  }
  const double last = found.density.back().from * largest.lower;
  found.below =
      spectrum.trace([last](const Tensor& at) { return (at < last).to(torch::kFloat64); });
}

/// The margin of the controller that steers the tail as one mode: modes have a residual, and the
/// tail may be slower than its bound.
Known bound_margin(const Known& margin, const Tensor& spectrum, const dynamics::Modes& modes) {
  if (!spectrum.defined()) return margin;  // a zero kernel, which does not move
  const double fastest = (spectrum[1] * (1 + spectrum[2])).max().item<double>();  // s g(s)
  return {margin.value, margin.value / (1 + modes.residual), 2 / fastest};
}

}  // namespace

Preflight analyze(const ProductKernel& kernel, const PreflightOptions& options) {
  CDT_REQUIRE(options.loss->quadratic(), "the analysis of many rows is for quadratic losses, got ",
              to_string(options.loss));
  const auto start = Clock::now();
  const int64_t n = kernel.samples * kernel.outputs;
  const auto lanczos = lanczos_of(kernel, n);
  dynamics::QuadratureOptions quadrature;
  quadrature.probes = std::clamp(kEntriesOfProbes / n, kLeastProbes, quadrature.probes);
  Counted times(kernel,
                2 * lanczos.modes + 5 * lanczos.block + quadrature.probes * quadrature.steps);
  const auto product = [&](const Tensor& columns) { return times(columns); };
  const auto modes = dynamics::leading_modes(product, n, lanczos).modes;

  const double factor = loss::gradient_factor(options.loss, n);
  const double largest = modes.largest(), bound = modes.upper_bound();
  const double unit = 1 / (factor * bound);
  Preflight found = start_preflight(options, unit, unit);
  found.samples = kernel.samples;
  found.outputs = kernel.outputs;
  examine_loop(found, control::Plant::of_modes(
                          modes, {.gradient_factor = factor, .rate = found.learning_rate}));
  found.rates.stable = Known::within(2 / (factor * bound), 2 / (factor * largest));
  Known& margin = found.controller.kernel_margin;
  margin = bound_margin(margin, found.controller.spectrum, modes);
  found.reachability.rank = bound_rank(kernel, found);
  found.reachability.reachable = found.reachability.rank.lower >= static_cast<double>(n);

  ByProducts& products = found.products.emplace();
  products.parameters = kernel.parameters;
  products.trace = kernel.trace;
  products.sampled_rows = kernel.part.size(0) / kernel.outputs;
  products.equal_rows = kernel.equal_rows;
  describe_spectrum(dynamics::stochastic_quadrature(product, n, &modes, quadrature, kernel.device),
                    found.spectrum.largest, products);
  products.products = times.count();
  products.seconds = seconds_since(start);
  return found;
}

}  // namespace cdt::analysis
