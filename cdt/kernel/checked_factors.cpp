#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/checked_factors.h>
#include <cdt/kernel/factor_product.h>

#include <algorithm>
#include <cmath>

namespace cdt::kernel {
namespace {

using torch::Tensor;

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

}  // namespace

int64_t slice_entries(int64_t memory_bytes) {
  constexpr int64_t kLargest = int64_t{1} << 23;
  constexpr int64_t kSmallest = int64_t{1} << 12;
  constexpr int64_t kOfBudget = 64;
  return std::clamp(memory_bytes / kOfBudget, kSmallest, kLargest);
}

void require_samples(const Tensor& x) {
  CDT_REQUIRE(x.defined() && x.dim() >= 1 && x.numel() > 0,
              "inputs must hold at least one sample along their first dimension");
}

Factors CheckedFactors::factors_of(const Tensor& x, const Block& block) {
  factor_options_.seed = options_.seed + static_cast<uint64_t>(block.first * width_) +
                         static_cast<uint64_t>(block.first_output);
  factor_options_.first_output = block.first_output;
  factor_options_.outputs = block.outputs;
  Factors factors = factorize(model_, x.narrow(0, block.first, block.samples), factor_options_);
  CDT_REQUIRE(factors.outputs.size(1) == width_, "the model gives ", width_,
              " outputs a sample for some samples and ", factors.outputs.size(1), " for others");
  require_uncoupled(factors, factors.coupling, block.first + factors.coupled_sample);
  require_same_outputs(x, block.first, factors);
  if (block.samples > 1) require_same_alone(x, block.first + block.samples - 1, factors);
  if (coverage_.empty()) {
    coverage_ = factors.coverage;
  } else {
    for (size_t p = 0; p < factors.coverage.size(); ++p) {
      if (factors.coverage[p].coverage == Coverage::kJacobian) coverage_[p] = factors.coverage[p];
    }
  }
  return factors;
}

void CheckedFactors::require_uncoupled(const Factors& factors, double gap, int64_t sample) const {
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

void CheckedFactors::require_same_outputs(const Tensor& x, int64_t first, const Factors& factors) {
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

Tensor CheckedFactors::alone(const Tensor& x, int64_t sample) const {
  return evaluate(model_, x.narrow(0, sample, 1)).detach();
}

/// The last sample of a block without the others. (The first two were recorded by themselves, to
/// count memory.)
void CheckedFactors::require_same_alone(const Tensor& x, int64_t last, const Factors& factors) {
  const auto [it, is_new] = seen_.try_emplace({x.unsafeGetTensorImpl(), last});
  if (is_new) it->second = alone(x, last);
  const Tensor together = factors.outputs.narrow(0, factors.samples - 1, 1);
  CDT_REQUIRE(it->second.size(1) == together.size(1), "the model gives ", it->second.size(1),
              " outputs for a sample alone and ", together.size(1), " among others");
  require_uncoupled(factors, (it->second - together).abs().max().item<double>(), last);
}

BlockPlan CheckedFactors::plan(const Tensor& x, int64_t samples, int64_t blocks_at_a_time) {
  factor_options_.samples = samples;
  const FactorCost cost = cost_per_sample(model_, x, factor_options_);
  seen_[{x.unsafeGetTensorImpl(), 0}] = cost.outputs;
  width_ = cost.outputs.size(1);
  return plan_blocks(cost, samples, options_.memory_bytes, blocks_at_a_time);
}

void CheckedFactors::require_same_width(const Tensor& x) {
  const Tensor first = alone(x, 0);
  CDT_REQUIRE(first.size(1) == width_, "x gives ", width_, " outputs a sample, x′ gives ",
              first.size(1));
  seen_[{x.unsafeGetTensorImpl(), 0}] = first;
}

void CheckedFactors::require_same_groups(const Factors& a, const Factors& b) const {
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

void CheckedFactors::check(const Factors& a, const Factors& b, const std::vector<double>& probes) {
  const double tolerance =
      std::max(tol::self_check(model_.dtype()), tol::self_check(options_.accumulate));
  // A group this small is rounding, of its own derivatives or of the others' part of Θ.
  const double rounding = 16 * tol::epsilon(model_.dtype());
  const double all_a = std::sqrt(trace_bound(a));
  const double all_b = std::sqrt(trace_bound(b));
  const double nothing =
      std::max(tol::epsilon(options_.accumulate), std::pow(rounding, 2)) * all_a * all_b;
  for (size_t g = 0; g < a.groups.size(); ++g) {
    double expected = 0;
    bool by_rule = true;
    for (size_t p : a.groups[g].parameters) {
      by_rule = by_rule && a.coverage[p].coverage == Coverage::kRule;
      if (!a.pulled_back[p].defined() || !b.pulled_back[p].defined()) continue;
      expected += dot_in_float64(a.pulled_back[p], b.pulled_back[p]);
    }
    const double own_a = std::sqrt(a.groups[g].trace);
    const double own_b = std::sqrt(b.groups[g].trace);
    // Derivatives that cancel in one block (a bias before a norm) and not in the other: J_aJ_bᵀ is
    // known to ‖J_a‖ times the rounding of J_b, and the other way round. Of a block with itself
    // both cancel.
    const double one_sided = &a == &b ? 0 : rounding * (own_a * all_b + own_b * all_a);
    const double scale =
        std::max({own_a * own_b, std::abs(expected), (nothing + one_sided) / tolerance});
    const double gap = std::abs(probes[g] - expected);
    if (!std::isfinite(gap)) throw NumericalError(kKernelOverflow);
    if (gap <= tolerance * scale) {
      if (scale > 0) self_check_ = std::max(self_check_, gap / scale);
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

void CheckedFactors::check(const Factors& factors) {
  std::vector<double> probes;
  const Tensor v = factors.probe.unsqueeze(1);
  for (const FactorGroup& group : factors.groups) {
    const Tensor product = kernel_product(group, v, slice_entries(options_.memory_bytes));
    probes.push_back((v * product).sum().item<double>());
  }
  check(factors, factors, probes);
}

}  // namespace cdt::kernel
