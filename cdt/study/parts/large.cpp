#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/data/rows/conflicts.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/study/parts/large.h>

#include <chrono>
#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Leading modes: beyond so many a decade below λ_max begins, and with less trace in the rest the
/// bound on λ_max is tight.
constexpr int64_t kLeadingModes = 12;
constexpr int64_t kLanczosBlock = 8;
/// Products of a float32 network have some six digits.
constexpr double kModeTolerance = 1e-4;
constexpr int64_t kRestarts = 6;
/// Rows whose kernel is decomposed.
constexpr int64_t kSampledOutputs = 2000;
constexpr int kDecades = 8;
/// Entries of all probes together: the error of an estimated trace falls with their number, so that
/// long probes need not be many.
constexpr int64_t kEntriesOfProbes = 160'000;
constexpr int64_t kLeastProbes = 3;  // a spread of fewer says little

/// Rows of x that equal an earlier one to the last bit.
int64_t count_equal_rows(const Tensor& x) {
  const Tensor rows = x.cpu().flatten(1).contiguous();
  const auto width = static_cast<size_t>(rows.size(1)) * c10::elementSize(rows.scalar_type());
  const auto* bytes = static_cast<const char*>(rows.data_ptr());
  const auto row = [&](int64_t i) {
    return std::string_view(bytes + static_cast<size_t>(i) * width, width);
  };
  int64_t equal = 0;
  for (const auto& members : data::group_equal(
           rows.size(0), [&](int64_t i) { return std::hash<std::string_view>()(row(i)); },
           [&](int64_t a, int64_t b) { return row(a) == row(b); })) {
    equal += static_cast<int64_t>(members.size()) - 1;
  }
  return equal;
}

/// Eigenvalues of a principal part of Θ lie below those of Θ, one by one: as many as are above the
/// tolerance there are in Θ.
void bound_rank(const Problem& problem, const AnalysisOptions& options, LargeFindings& found) {
  const int64_t rows =
      std::min(found.samples, std::max<int64_t>(1, kSampledOutputs / found.outputs));
  kernel::NtkOptions ntk;
  ntk.memory_bytes = options.memory_bytes;
  const auto part = kernel::empirical_ntk(problem.model, problem.data.x.narrow(0, 0, rows), ntk);
  const double zero = tol::rank_of_computed(found.n, part.network_dtype) * found.lambda_max_bound;
  const Tensor values = torch::linalg_eigvalsh(part.theta);
  found.reachable_at_least = (values > zero).sum().item<int64_t>();
  found.sampled_rows = rows;
  found.equal_rows = count_equal_rows(problem.data.x);
  found.reachable_at_most =
      std::min((found.samples - found.equal_rows) * found.outputs, found.parameters);
}

void describe_spectrum(const dynamics::SpectralQuadrature& spectrum, LargeFindings& found) {
  const double mean = found.trace / static_cast<double>(found.n);
  const auto square = spectrum.trace([](const Tensor& at) { return at.square(); });
  const double rank = found.trace * found.trace / square.value;
  found.effective_rank = {rank, rank * square.error / square.value};
  for (const double decay : {10.0, 1.0, 0.1, 0.01, 0.001}) {
    const double tau = decay * mean;
    found.freedom.push_back(
        {decay, spectrum.trace([tau](const Tensor& at) { return at / (at + tau); })});
  }
  const double top = found.lambda_max_bound * (1 + tol::kEpsilon64);
  for (int decade = 1; decade <= kDecades; ++decade) {
    const double from = std::pow(10.0, -decade);
    const double low = from * found.lambda_max;
    const double high = decade == 1 ? 2 * top : 10 * low;
    found.density.push_back({from, spectrum.trace([low, high](const Tensor& at) {
                               return (at >= low).logical_and(at < high).to(torch::kFloat64);
                             })});
  }
  const double last = found.density.back().from * found.lambda_max;
  found.below =
      spectrum.trace([last](const Tensor& at) { return (at < last).to(torch::kFloat64); });
}

}  // namespace

LargeFindings analyze_large(const Problem& problem, const AnalysisOptions& options) {
  CDT_REQUIRE(options.loss->quadratic(), "the analysis of many rows is for quadratic losses, got ",
              to_string(options.loss));
  const auto start = std::chrono::steady_clock::now();
  LargeFindings found;
  found.source = problem.table.source;
  found.samples = problem.data.x.size(0);
  found.outputs = problem.data.y.size(1);
  found.n = found.samples * found.outputs;
  found.parameters = problem.model->parameter_count();
  found.loss = options.loss;
  found.q = options.q;
  found.p = options.p;
  found.conflicts = problem.conflicts;

  const kernel::Model model(problem.model);
  kernel::OperatorOptions wanted;
  wanted.memory_bytes = options.memory_bytes;
  wanted.accumulate = model.dtype();
  const kernel::NtkOperator theta(model, problem.data.x, wanted);
  found.trace = theta.trace();
  found.initial_loss = dynamics::output_loss(
      options.loss, theta.outputs().to(torch::kFloat64).view(problem.data.y.sizes()),
      problem.data.y.to(torch::kFloat64));

  dynamics::LanczosOptions lanczos;
  lanczos.modes = std::min(kLeadingModes, found.n);
  lanczos.block = kLanczosBlock;
  lanczos.tolerance = kModeTolerance;
  lanczos.max_restarts = kRestarts;
  lanczos.device = problem.data.x.device();
  // Products round in the network's precision; the trace must not seem less than the modes.
  lanczos.trace = found.trace * (1 + tol::epsilon(model.dtype()) * 64);
  lanczos.rank_tolerance = tol::rank_of_computed(found.n, model.dtype());
  dynamics::QuadratureOptions quadrature;
  quadrature.probes = std::clamp(kEntriesOfProbes / found.n, kLeastProbes, quadrature.probes);
  const int64_t expected =
      2 * lanczos.modes + 5 * lanczos.block + quadrature.probes * quadrature.steps;
  const auto product = [&](const Tensor& columns) {
    found.products += columns.size(1);
    if (options.progress) options.progress(std::min(found.products, expected), expected);
    return theta.apply(columns.to(model.dtype())).to(torch::kFloat64);
  };
  found.modes = dynamics::leading_modes(product, found.n, lanczos).modes;
  found.lambda_max = found.modes.largest();
  found.lambda_max_bound = found.modes.upper_bound();

  const double factor = loss::gradient_factor(options.loss, found.n);
  found.learning_rate = options.examined_rate(1 / (factor * found.lambda_max_bound));
  const double scale = found.learning_rate * factor;
  found.stability = analysis::assess_stability(found.modes, scale);
  found.lr_max = 2 / (factor * found.lambda_max_bound);
  found.lr_max_above = 2 / (factor * found.lambda_max);
  const auto controller =
      control::design(control::Plant::of_modes(
                          found.modes, {.gradient_factor = factor, .rate = found.learning_rate}),
                      {.q = options.q, .p = options.p}, options.design);
  found.margins = analysis::kernel_margins(*controller);
  found.radius_cdt = controller->closed_loop_radius();
  found.gain_slow_modes = options.design == "lqr"
                              ? control::gain_of_slow_modes(options.q, options.p)
                              : controller->certificate().gain - 1;

  describe_spectrum(dynamics::stochastic_quadrature(product, found.n, &found.modes, quadrature,
                                                    problem.data.x.device()),
                    found);
  bound_rank(problem, options, found);
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

}  // namespace cdt::study
