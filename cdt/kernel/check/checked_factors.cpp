#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/product/factor_product.h>
#include <cdt/kernel/product/sizes.h>
#include <cdt/kernel/product/tiling.h>
#include <cdt/kernel/record/recorder.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Upper bounds on the trace of Σ_i J_iJ_iᵀ over all samples, per parameter group.
std::vector<SquareSum> traces_of(const Factors& factors) {
  std::vector<SquareSum> traces;
  for (const FactorGroup& group : factors.groups) traces.push_back(group.trace);
  return traces;
}

void ask_traces(const Factors& factors, std::vector<Tensor>& numbers) {
  for (const FactorGroup& group : factors.groups) {
    for (const auto& [weight, size] : group.trace.parts) numbers.push_back(size);
  }
}

/// Reads traces from a sequence of numbers, and advances the pointer.
std::vector<double> read(const std::vector<SquareSum>& traces, const double*& numbers) {
  std::vector<double> values;
  for (const SquareSum& trace : traces) {
    values.push_back(trace.value(numbers));
    numbers += trace.parts.size();
  }
  return values;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

int64_t slice_entries(int64_t memory_bytes, torch::Device device) {
  constexpr int64_t kSmallest = int64_t{1} << 12;
  constexpr int64_t kOfBudget = 64;
  return std::clamp(memory_bytes / kOfBudget, kSmallest, tiling_for(device).temporary_entries);
}

PlanKey plan_key(const Model& model, const Tensor& x, int64_t samples, const NtkOptions& options,
                 int64_t blocks_at_a_time) {
  return {x.sizes().slice(1).vec(), x.scalar_type(), options.accumulate, model.device(), samples,
          options.memory_bytes,     blocks_at_a_time};
}

Factors CheckedFactors::factors_of(const Tensor& x, const Block& block) {
  factor_options_.seed = options_.seed + static_cast<uint64_t>(block.first * width_) +
                         static_cast<uint64_t>(block.first_output);
  factor_options_.first_output = block.first_output;
  factor_options_.outputs = block.outputs;
  Factors factors =
      factorize(model_, x.narrow(0, block.first, block.samples), factor_options_, checks_);
  if (plan_known_ && factors.outputs.size(1) != width_) throw StalePlan();
  CDT_REQUIRE(factors.outputs.size(1) == width_, "the model gives ", width_,
              " outputs a sample for some samples and ", factors.outputs.size(1), " for others");
  if (coverage_.empty()) {
    coverage_ = factors.coverage;
    sample_dimensions_ = factors.sample_dimensions;
  } else {
    for (size_t p = 0; p < factors.coverage.size(); ++p) {
      if (factors.coverage[p].coverage == Coverage::kJacobian) coverage_[p] = factors.coverage[p];
    }
    if (sample_dimensions_ != factors.sample_dimensions) sample_dimensions_.reset();
  }
  if (factors.coupling > 0) {
    require_uncoupled(factors, torch::full({1, 1}, factors.coupling, factors.outputs.options()),
                      block.first + factors.coupled_sample);
  }
  require_same_outputs(x, block.first, factors);
  if (options_.replay == NtkOptions::Replay::kChecked && block.samples == x.size(0) &&
      block.outputs == width_) {
    pulled_back_ = factors.pulled_back;
  }
  if (block.samples > 1 && factors.probe.defined()) {
    checks_.beside(model_.device(), [this, x, block, factors] {
      require_same_alone(x, block.first + block.samples - 1, factors);
    });
  }
  return factors;
}

/// `gaps` [k, n_L]: differences of the outputs of samples from `first` on between two evaluations.
void CheckedFactors::require_uncoupled(const Factors& factors, const Tensor& gaps, int64_t first) {
  const auto judge = [this, gaps, first, samples = factors.samples,
                      traces = traces_of(factors)](const double* numbers) {
    const double gap = numbers[0];
    double allowed = tol::coupling(model_.dtype()) * numbers[1];
    if (gap <= allowed) return;
    // Outputs may cancel to zero; rounding of each parameter still changes them.
    double squares = 0;
    for (const Tensor& p : model_.parameters()) squares += p.detach().square().sum().item<double>();
    const double* sizes = numbers + 2;
    allowed += 16 * tol::epsilon(model_.dtype()) *
               std::sqrt(squares * sum_of(read(traces, sizes)) / static_cast<double>(samples));
    CDT_REQUIRE(
        gap <= allowed, "the outputs of sample ",
        first + gaps.abs().amax(1).argmax().item<int64_t>(), " change by ", gap,
        " with other samples or from call to call: a layer mixes samples or is random. "
        "Call eval() for batch norm and dropout; samples must lie along the first dimension");
  };
  std::vector<Tensor> numbers{largest_of(gaps), largest_of(factors.outputs)};
  ask_traces(factors, numbers);
  checks_.add(std::move(numbers), judge);
}

void CheckedFactors::require_same_outputs(const Tensor& x, int64_t first, const Factors& factors) {
  const auto [it, is_new] = seen_.try_emplace({x.unsafeGetTensorImpl(), first}, factors.outputs);
  if (is_new) return;
  const int64_t rows = std::min(it->second.size(0), factors.samples);
  CDT_REQUIRE(it->second.size(1) == factors.outputs.size(1), "the model gives ", it->second.size(1),
              " outputs a sample for ", it->second.size(0), " samples and ",
              factors.outputs.size(1), " for ", factors.samples);
  require_uncoupled(factors, it->second.narrow(0, 0, rows) - factors.outputs.narrow(0, 0, rows),
                    first);
}

Tensor CheckedFactors::alone(const Tensor& x, int64_t sample) {
  Tensor outputs;
  watch(model_, [&] { outputs = evaluate(model_, x.narrow(0, sample, 1), checks_).detach(); });
  return outputs;
}

/// Compares the last sample of a block with its evaluation alone. (The first two were recorded
/// alone, to measure memory.)
void CheckedFactors::require_same_alone(const Tensor& x, int64_t last, const Factors& factors) {
  const auto [it, is_new] = seen_.try_emplace({x.unsafeGetTensorImpl(), last});
  if (is_new) it->second = alone(x, last);
  const Tensor together = factors.outputs.narrow(0, factors.samples - 1, 1);
  CDT_REQUIRE(it->second.size(1) == together.size(1), "the model gives ", it->second.size(1),
              " outputs for a sample alone and ", together.size(1), " among others");
  require_uncoupled(factors, it->second - together, last);
}

BlockPlan CheckedFactors::plan(const Tensor& x, int64_t samples, int64_t blocks_at_a_time) {
  factor_options_.samples = samples;
  factor_options_.trusted = options_.trusted;
  plan_key_ = plan_key(model_, x, samples, options_, blocks_at_a_time);
  if (const auto known = plan_is_usual() ? model_.plans().find(plan_key_) : std::nullopt) {
    adopt(*known, samples);
    return plan_;
  }
  FactorCost cost = cost_per_sample(model_, x, factor_options_);
  seen_[{x.unsafeGetTensorImpl(), 0}] = cost.outputs;
  width_ = cost.outputs.size(1);
  if (blocks_at_a_time == kBlocksOfAKernel &&
      samples > options_.memory_bytes / std::max<int64_t>(1, cost.bytes(width_, 1))) {
    // A kernel recomputes a block for each other one: a quarter less memory saves half of that.
    factor_options_.lean = true;
    const FactorCost lean = cost_per_sample(model_, x, factor_options_);
    factor_options_.lean =
        4 * lean.bytes(width_, blocks_at_a_time) <= 3 * cost.bytes(width_, blocks_at_a_time);
    if (factor_options_.lean) cost = lean;
  }
  plan_ = plan_blocks(cost, samples, options_.memory_bytes, blocks_at_a_time);
  plan_bytes_ = plan_.samples * cost.bytes(plan_.outputs, 1);
  return plan_;
}

void CheckedFactors::adopt(const KnownPlan& known, int64_t samples) {
  factor_options_.samples = samples;
  plan_ = known.blocks;
  plan_known_ = true;
  width_ = known.width;
  factor_options_.sample_dimensions = known.sample_dimensions;
  factor_options_.lean = known.lean;
}

void CheckedFactors::remember_plan() const {
  if (plan_known_ || !sample_dimensions_ || !plan_is_usual()) return;
  model_.plans().keep(plan_key_,
                      {plan_, plan_bytes_, width_, *sample_dimensions_, factor_options_.lean});
}

void CheckedFactors::require_same_width(const Tensor& x) {
  const Tensor first = alone(x, 0);
  if (plan_known_ && first.size(1) != width_) throw StalePlan();
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

void CheckedFactors::check(const Factors& a, const Factors& b, const Tensor& images) {
  if (!a.probe.defined()) return;
  const bool itself = &a == &b;
  std::vector<Tensor> numbers{images.mv(a.probe)};
  /// A parameter group, and its share of Jᵀv in both blocks.
  struct Group {
    std::vector<size_t> parameters;
    bool by_rule = true;
    int64_t products = 0;
  };
  std::vector<Group> groups;
  for (const FactorGroup& group : a.groups) {
    Group& known = groups.emplace_back();
    known.parameters = group.parameters;
    for (const size_t p : group.parameters) {
      known.by_rule = known.by_rule && a.coverage[p].coverage == Coverage::kRule;
      if (!a.pulled_back[p].defined() || !b.pulled_back[p].defined()) continue;
      numbers.push_back(itself ? a.pulled_back_squares[p]
                               : dot_in_float64(a.pulled_back[p], b.pulled_back[p]));
      ++known.products;
    }
  }
  ask_traces(a, numbers);
  if (!itself) ask_traces(b, numbers);
  const auto judge = [this, itself, groups, traces_a = traces_of(a),
                      traces_b = traces_of(b)](const double* numbers) {
    const double* probes = numbers;
    const double* products = numbers + groups.size();
    const double* sizes = products;
    for (const Group& group : groups) sizes += group.products;
    const std::vector<double> own_a = read(traces_a, sizes);
    const std::vector<double> own_b = itself ? own_a : read(traces_b, sizes);
    const double tolerance =
        std::max(tol::self_check(model_.dtype()), tol::self_check(options_.accumulate));
    // A group this small is rounding of its own derivatives, or of the others' part of Θ.
    const double rounding = 16 * tol::epsilon(model_.dtype());
    const double all_a = std::sqrt(sum_of(own_a));
    const double all_b = std::sqrt(sum_of(own_b));
    const double nothing =
        std::max(tol::epsilon(options_.accumulate), std::pow(rounding, 2)) * all_a * all_b;
    for (size_t g = 0; g < groups.size(); ++g) {
      double expected = 0;
      for (int64_t k = 0; k < groups[g].products; ++k) expected += *products++;
      const double size_a = std::sqrt(own_a[g]);
      const double size_b = std::sqrt(own_b[g]);
      // Derivatives may cancel in one block (a bias before a norm) but not in the other: then
      // J_aJ_bᵀ is known only to ‖J_a‖ times the rounding of J_b, and vice versa. For a block with
      // itself both cancel.
      const double one_sided = itself ? 0 : rounding * (size_a * all_b + size_b * all_a);
      const double scale =
          std::max({size_a * size_b, std::abs(expected), (nothing + one_sided) / tolerance});
      const double gap = std::abs(probes[g] - expected);
      if (!std::isfinite(gap)) throw NumericalError(kKernelOverflow);
      if (gap <= tolerance * scale) {
        if (scale > 0) self_check_ = std::max(self_check_, gap / scale);
      } else if (groups[g].by_rule) {
        throw RefutedRule{groups[g].parameters};
      } else {
        throw NumericalError(c10::str(
            "the kernel failed its self-check: vᵀΘv is ", probes[g], " where ‖Jᵀv‖² is ", expected,
            "; is the model's forward function random or stateful, or do its "
            "derivatives cancel to rounding (float64 has more digits)?"));
      }
    }
  };
  checks_.add(std::move(numbers), judge);
}

void CheckedFactors::check(const Factors& factors) {
  if (!factors.probe.defined()) return settle();
  std::vector<Tensor> images;
  const Tensor v = factors.probe.unsqueeze(1);
  for (const FactorGroup& group : factors.groups) {
    images.push_back(
        kernel_product(group, v, slice_entries(options_.memory_bytes, model_.device())).view({-1}));
  }
  check(factors, factors, torch::stack(images));
  settle();
}

}  // namespace cdt::kernel
