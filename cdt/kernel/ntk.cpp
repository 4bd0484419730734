#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/autograd_scope.h>
#include <cdt/kernel/block_product.h>
#include <cdt/kernel/ntk.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Diagonal blocks of at most this many rows are multiplied whole; larger ones are halved, and of
/// the halves' products only the upper triangle is computed. Below, the smaller products lose more
/// speed than the symmetry saves.
constexpr int64_t kWholeRows = 256;

constexpr const char* kOverflow =
    "the kernel overflowed: the network's derivatives are not finite, or too large to be squared";

/// A rule that the self-check refuted; its parameters go to the Jacobian path and the kernel is
/// started again.
struct RefutedRule {
  std::vector<size_t> parameters;
};

class Assembler {
 public:
  Assembler(const Model& model, const NtkOptions& options, const FactorOptions& factor_options)
      : model_(model), options_(options), factor_options_(factor_options) {}

  Ntk symmetric(const Tensor& x);
  Ntk rectangular(const Tensor& x, const Tensor& x_prime);

 private:
  Factors block(const Tensor& x, int64_t first, int64_t count);
  int64_t block_size(const Tensor& x, int64_t samples);
  void require_same_outputs(const Tensor& x, int64_t first, const Factors& factors);
  void require_same_alone(const Tensor& x, int64_t last, const Factors& factors);
  Tensor alone(const Tensor& x, int64_t sample) const;
  void require_uncoupled(const Factors& factors, double gap, int64_t sample) const;
  Tensor allocate(int64_t rows, int64_t columns) const;
  void add_symmetric(const Tensor& theta, const Factors& f, int64_t first, int64_t count,
                     std::vector<double>& probes);
  void check(const Factors& a, const Factors& b, const std::vector<double>& probes);
  void require_same_groups(const Factors& a, const Factors& b) const;
  void report(int64_t done, int64_t total) const {
    if (options_.progress) options_.progress(done, total);
  }

  const Model& model_;
  const NtkOptions& options_;
  FactorOptions factor_options_;
  Ntk ntk_;
  /// Outputs by inputs and first sample: the same samples must give them again, alone or among
  /// others.
  std::map<std::pair<const void*, int64_t>, Tensor> seen_;
};

/// Rows or columns of Θ that belong to some samples.
Tensor part(const Tensor& theta, int64_t dimension, int64_t first, int64_t count, int64_t width) {
  return theta.narrow(dimension, first * width, count * width);
}

/// Of J_iJ_iᵀ over all samples and groups of parameters, at most.
double trace_bound(const Factors& factors) {
  double trace = 0;
  for (const FactorGroup& group : factors.groups) trace += group.trace;
  return trace;
}

/// Piece by piece: copies of a large parameter's gradients would not fit beside them.
double dot_in_float64(const Tensor& a, const Tensor& b) {
  constexpr int64_t kEntries = 1 << 16;
  const auto pieces = a.flatten().split(kEntries);
  const auto others = b.flatten().split(kEntries);
  Tensor sum = torch::zeros({}, a.options().dtype(torch::kFloat64));
  for (size_t k = 0; k < pieces.size(); ++k) {
    sum += torch::dot(pieces[k].to(torch::kFloat64), others[k].to(torch::kFloat64));
  }
  return sum.item<double>();
}

/// Writes the upper triangle over the lower one, in blocks: a second matrix would not fit beside a
/// large one.
void mirror(const Tensor& theta) {
  constexpr int64_t kRows = 128;
  const int64_t n = theta.size(0);
  for (int64_t i = 0; i < n; i += kRows) {
    const int64_t rows = std::min(kRows, n - i);
    const Tensor left = theta.narrow(0, i, rows);
    left.narrow(1, 0, i).copy_(theta.narrow(0, 0, i).narrow(1, i, rows).t());
    const Tensor diagonal = left.narrow(1, i, rows);
    diagonal.copy_(diagonal.triu() + diagonal.triu(1).t());
  }
}

Factors Assembler::block(const Tensor& x, int64_t first, int64_t count) {
  factor_options_.seed = options_.seed + static_cast<uint64_t>(first);
  Factors factors = factorize(model_, x.narrow(0, first, count), factor_options_);
  require_uncoupled(factors, factors.coupling, first + factors.coupled_sample);
  require_same_outputs(x, first, factors);
  if (count > 1) require_same_alone(x, first + count - 1, factors);
  if (ntk_.coverage.empty()) {
    ntk_.coverage = factors.coverage;
  } else {
    for (size_t p = 0; p < factors.coverage.size(); ++p) {
      if (factors.coverage[p].coverage == Coverage::kJacobian)
        ntk_.coverage[p] = factors.coverage[p];
    }
  }
  return factors;
}

void Assembler::require_uncoupled(const Factors& factors, double gap, int64_t sample) const {
  double allowed = tol::coupling(model_.dtype()) * factors.outputs.abs().max().item<double>();
  if (gap <= allowed) return;
  // Outputs may cancel to nothing; rounding of each parameter still moves them.
  double squares = 0;
  for (const Tensor& p : model_.parameters()) squares += p.detach().square().sum().item<double>();
  allowed += 16 * tol::epsilon(model_.dtype()) *
             std::sqrt(squares * trace_bound(factors) / static_cast<double>(factors.samples));
  CDT_REQUIRE(gap <= allowed, "the outputs of sample ", sample, " change by ", gap,
              " with the samples beside it, or from one evaluation to the next: a layer of the "
              "model mixes samples or is "
              "random. Put batch norm and dropout in eval mode; samples must lie along the first "
              "dimension");
}

void Assembler::require_same_outputs(const Tensor& x, int64_t first, const Factors& factors) {
  const auto [it, is_new] = seen_.try_emplace({x.unsafeGetTensorImpl(), first}, factors.outputs);
  if (is_new) return;
  const int64_t rows = std::min(it->second.size(0), factors.samples);
  CDT_REQUIRE(it->second.size(1) == factors.outputs.size(1), "the model gives ", it->second.size(1),
              " outputs a sample for ", it->second.size(0), " samples and ",
              factors.outputs.size(1), " for ", factors.samples);
  const Tensor gaps =
      (it->second.narrow(0, 0, rows) - factors.outputs.narrow(0, 0, rows)).abs().amax(1);
  const int64_t worst = gaps.argmax().item<int64_t>();
  require_uncoupled(factors, gaps[worst].item<double>(), first + worst);
}

Tensor Assembler::alone(const Tensor& x, int64_t sample) const {
  return evaluate(model_, x.narrow(0, sample, 1)).detach();
}

/// The last sample of a block without the others. (The first two were recorded by themselves, to
/// count memory.)
void Assembler::require_same_alone(const Tensor& x, int64_t last, const Factors& factors) {
  const auto [it, is_new] = seen_.try_emplace({x.unsafeGetTensorImpl(), last});
  if (is_new) it->second = alone(x, last);
  const Tensor together = factors.outputs.narrow(0, factors.samples - 1, 1);
  CDT_REQUIRE(it->second.size(1) == together.size(1), "the model gives ", it->second.size(1),
              " outputs for a sample alone and ", together.size(1), " among others");
  require_uncoupled(factors, (it->second - together).abs().max().item<double>(), last);
}

int64_t Assembler::block_size(const Tensor& x, int64_t samples) {
  factor_options_.samples = samples;
  const FactorCost cost = cost_per_sample(model_, x, factor_options_);
  seen_[{x.unsafeGetTensorImpl(), 0}] = cost.outputs;
  const int64_t whole = cost.factor_bytes + cost.graph_bytes;
  if (samples <= options_.memory_bytes / std::max<int64_t>(1, whole)) return samples;
  const int64_t per_sample = 2 * cost.factor_bytes + cost.graph_bytes;  // two blocks at a time
  const int64_t fit = options_.memory_bytes / per_sample;
  CDT_REQUIRE(fit >= 1, "a memory budget of ", options_.memory_bytes,
              " bytes does not hold the Jacobian factors of one sample, which need ", per_sample);
  return std::min(fit, samples);
}

Tensor Assembler::allocate(int64_t rows, int64_t columns) const {
  return torch::zeros({rows, columns},
                      torch::TensorOptions().dtype(options_.accumulate).device(model_.device()));
}

void Assembler::add_symmetric(const Tensor& theta, const Factors& f, int64_t first, int64_t count,
                              std::vector<double>& probes) {
  const int64_t width = f.outputs.size(1);
  if (count == 1 || count * width <= kWholeRows) {
    add_product(theta, f, first, count, f, first, count, 1.0, probes);
    return;
  }
  const int64_t half = count / 2;
  const int64_t rest = count - half;
  const Tensor upper = part(theta, 0, 0, half, width);
  const Tensor lower = part(theta, 0, half, rest, width);
  add_symmetric(part(upper, 1, 0, half, width), f, first, half, probes);
  add_product(part(upper, 1, half, rest, width), f, first, half, f, first + half, rest, 2.0,
              probes);
  add_symmetric(part(lower, 1, half, rest, width), f, first + half, rest, probes);
}

void Assembler::require_same_groups(const Factors& a, const Factors& b) const {
  RefutedRule refuted;
  const auto differ = [](const FactorGroup& g, const FactorGroup& h) {
    return g.parameters != h.parameters || g.rows.defined() != h.rows.defined();
  };
  for (size_t k = 0; k < std::max(a.groups.size(), b.groups.size()); ++k) {
    if (k < a.groups.size() && k < b.groups.size() && !differ(a.groups[k], b.groups[k])) continue;
    for (const Factors* f : {&a, &b}) {
      if (k < f->groups.size()) {
        const auto& p = f->groups[k].parameters;
        refuted.parameters.insert(refuted.parameters.end(), p.begin(), p.end());
      }
    }
  }
  if (!refuted.parameters.empty()) throw refuted;
}

void Assembler::check(const Factors& a, const Factors& b, const std::vector<double>& probes) {
  const double tolerance =
      std::max(tol::self_check(model_.dtype()), tol::self_check(options_.accumulate));
  // A group this small is rounding, of its own derivatives or of the others' part of Θ.
  const double nothing =
      std::max(tol::epsilon(options_.accumulate), std::pow(16 * tol::epsilon(model_.dtype()), 2)) *
      std::sqrt(trace_bound(a) * trace_bound(b));
  for (size_t g = 0; g < a.groups.size(); ++g) {
    double expected = 0;
    bool by_rule = true;
    for (size_t p : a.groups[g].parameters) {
      by_rule = by_rule && a.coverage[p].coverage == Coverage::kRule;
      if (!a.pulled_back[p].defined() || !b.pulled_back[p].defined()) continue;
      expected += dot_in_float64(a.pulled_back[p], b.pulled_back[p]);
    }
    const double scale = std::max({std::sqrt(a.groups[g].trace * b.groups[g].trace),
                                   std::abs(expected), nothing / tolerance});
    const double gap = std::abs(probes[g] - expected);
    if (!std::isfinite(gap)) throw NumericalError(kOverflow);
    if (gap <= tolerance * scale) {
      if (scale > 0) ntk_.self_check = std::max(ntk_.self_check, gap / scale);
    } else if (by_rule) {
      throw RefutedRule{a.groups[g].parameters};
    } else {
      throw NumericalError(c10::str(
          "the kernel failed its self-check: vᵀΘv is ", probes[g], " where ‖Jᵀv‖² is ", expected,
          "; is the model's forward function random or stateful, or do its "
          "derivatives cancel to rounding (float64 has more digits)?"));
    }
  }
}

Ntk Assembler::symmetric(const Tensor& x) {
  const int64_t samples = x.size(0);
  const int64_t size = block_size(x, samples);
  const int64_t blocks = (samples + size - 1) / size;
  const int64_t total = blocks * (blocks + 1) / 2;
  int64_t done = 0;
  std::vector<Tensor> outputs;
  for (int64_t i = 0; i < samples; i += size) {
    const Factors a = block(x, i, std::min(size, samples - i));
    outputs.push_back(a.outputs);
    const int64_t width = a.outputs.size(1);
    if (!ntk_.theta.defined()) ntk_.theta = allocate(samples * width, samples * width);
    const Tensor rows = part(ntk_.theta, 0, i, a.samples, width);
    std::vector<double> probes(a.groups.size(), 0.0);
    add_symmetric(part(rows, 1, i, a.samples, width), a, 0, a.samples, probes);
    check(a, a, probes);
    report(++done, total);
    for (int64_t j = i + size; j < samples; j += size) {
      const Factors b = block(x, j, std::min(size, samples - j));
      require_same_groups(a, b);
      std::fill(probes.begin(), probes.end(), 0.0);
      add_product(part(rows, 1, j, b.samples, width), a, 0, a.samples, b, 0, b.samples, 1.0,
                  probes);
      check(a, b, probes);
      report(++done, total);
    }
  }
  mirror(ntk_.theta);
  ntk_.outputs = torch::cat(outputs);
  return std::move(ntk_);
}

Ntk Assembler::rectangular(const Tensor& x, const Tensor& x_prime) {
  const int64_t rows = x.size(0);
  const int64_t columns = x_prime.size(0);
  const int64_t size = block_size(x, rows + columns);
  const int64_t total = ((rows + size - 1) / size) * ((columns + size - 1) / size);
  int64_t done = 0;
  std::vector<Tensor> outputs;
  seen_[{x_prime.unsafeGetTensorImpl(), 0}] = alone(x_prime, 0);
  for (int64_t i = 0; i < rows; i += size) {
    const Factors a = block(x, i, std::min(size, rows - i));
    outputs.push_back(a.outputs);
    const int64_t width = a.outputs.size(1);
    for (int64_t j = 0; j < columns; j += size) {
      const Factors b = block(x_prime, j, std::min(size, columns - j));
      CDT_REQUIRE(b.outputs.size(1) == width, "x gives ", width, " outputs a sample, x′ gives ",
                  b.outputs.size(1));
      if (!ntk_.theta.defined()) ntk_.theta = allocate(rows * width, columns * width);
      require_same_groups(a, b);
      std::vector<double> probes(a.groups.size(), 0.0);
      add_product(part(part(ntk_.theta, 0, i, a.samples, width), 1, j, b.samples, width), a, 0,
                  a.samples, b, 0, b.samples, 1.0, probes);
      check(a, b, probes);
      report(++done, total);
    }
  }
  ntk_.outputs = torch::cat(outputs);
  return std::move(ntk_);
}

/// Assembles until no rule is refuted; every round moves at least one parameter to the Jacobian
/// path.
template <class Assemble>
Ntk with_fallback(const Model& model, const NtkOptions& options, const Assemble& assemble) {
  const KernelScope scope;
  FactorOptions factor_options;
  factor_options.accumulate = options.accumulate;
  factor_options.all_by_jacobian = options.path == NtkOptions::Path::kJacobian;
  CDT_REQUIRE(options.accumulate == torch::kFloat64 || options.accumulate == torch::kFloat32,
              "kernels accumulate in float64 or float32, not ", options.accumulate);
  for (;;) {
    try {
      Assembler assembler(model, options, factor_options);
      Ntk ntk = assemble(assembler);
      ntk.network_dtype = model.dtype();
      const auto [lowest, highest] = torch::aminmax(ntk.theta);  // NaN shows in both
      if (!std::isfinite(lowest.template item<double>()) ||
          !std::isfinite(highest.template item<double>())) {
        throw NumericalError(kOverflow);
      }
      return ntk;
    } catch (const RefutedRule& refuted) {
      const size_t before = factor_options.by_jacobian.size();
      factor_options.by_jacobian.insert(refuted.parameters.begin(), refuted.parameters.end());
      if (factor_options.by_jacobian.size() == before) {
        throw NumericalError(
            "the model computes different functions for different blocks of samples");
      }
    }
  }
}

}  // namespace

Ntk empirical_ntk(const Model& model, const Tensor& x, const NtkOptions& options) {
  CDT_REQUIRE(x.defined() && x.dim() >= 1 && x.numel() > 0,
              "inputs must hold at least one sample along their first dimension");
  return with_fallback(model, options, [&](Assembler& a) { return a.symmetric(x); });
}

Ntk empirical_ntk(const Model& model, const Tensor& x, const Tensor& x_prime,
                  const NtkOptions& options) {
  for (const Tensor& inputs : {x, x_prime}) {
    CDT_REQUIRE(inputs.defined() && inputs.dim() >= 1 && inputs.numel() > 0,
                "inputs must hold at least one sample along their first dimension");
  }
  return with_fallback(model, options, [&](Assembler& a) { return a.rectangular(x, x_prime); });
}

std::string Ntk::brief_report() const {
  int64_t by_rule = 0;
  int64_t unused = 0;
  std::map<std::string, int64_t> by_jacobian;
  for (const ParameterCoverage& p : coverage) {
    if (p.coverage == Coverage::kRule) ++by_rule;
    if (p.coverage == Coverage::kUnused) ++unused;
    if (p.coverage == Coverage::kJacobian) ++by_jacobian[p.reason];
  }
  std::string text = c10::str(by_rule, " parameter tensors by layer rules");
  for (const auto& [reason, count] : by_jacobian) {
    text += c10::str(", ", count, " by Jacobian rows (", reason, ")");
  }
  if (unused > 0) text += c10::str(", ", unused, " without influence");
  return text + c10::str("; self-check ", self_check);
}

}  // namespace cdt::kernel
