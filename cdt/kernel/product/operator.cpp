#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/kernel/check/checked_factors.h>
#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/factor_product.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/autograd_scope.h>
#include <cdt/kernel/record/recorder.h>

#include <algorithm>
#include <cmath>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// A product takes about 4 operations per parameter and output by factors, 8 per parameter by
/// autograd. Factors remain valid when parameters change, which justifies slightly more.
constexpr int64_t kFewOutputs = 4;

/// Memory of an application's graphs, in forward passes: activations, those of the backward pass,
/// and as much again to differentiate both.
constexpr int64_t kPassesInMemory = 4;

/// Block size of streamed samples: larger blocks gain nothing, and touch new memory pages each
/// time.
constexpr int64_t kStreamBytes = int64_t{1} << 26;
/// With fewer samples, call overhead dominates.
constexpr int64_t kFewSamples = 64;

/// Inputs up to this size are copied, to detect writes that version counters miss.
constexpr int64_t kSmallInputs = int64_t{1} << 26;

bool same_values(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.device() == b.device() &&
         a.equal(b);
}

}  // namespace

NtkOperator::NtkOperator(Model model, Tensor x, const OperatorOptions& options)
    : model_(std::move(model)), x_(std::move(x)), options_(options) {
  const KernelScope scope;
  require_samples(x_);
  x_version_ = version_of(x_);
  for (const Tensor& p : model_.parameters()) parameters_.push_back(p.detach().clone());
  if (static_cast<int64_t>(x_.nbytes()) <= kSmallInputs) x_values_ = x_.detach().clone();
  const int64_t samples = x_.size(0);
  if (options_.path == OperatorOptions::Path::kAuto) factors_ = factors_that_fit();
  if (by_factors()) {
    block_samples_ = samples;
    std::vector<Tensor> outputs;
    for (const Factors& block : factors_) outputs.push_back(block.outputs);
    outputs_ = torch::cat(outputs);
    return;
  }
  require_transposes(model_, x_);
  const int64_t per_sample = on_few_samples(x_, [&](const Tensor& few) {
    PendingChecks checks;
    const int64_t bytes = record(model_, few, checks).activation_bytes;
    checks.settle();
    return kPassesInMemory * bytes / few.size(0) + 1;
  });
  block_samples_ = std::clamp<int64_t>(options_.memory_bytes / 2 / per_sample, 1, samples);
  if (block_samples_ == samples) {
    const Tensor outputs = differentiable_outputs(model_, x_);
    outputs_ = outputs.detach();
    kept_ = extended(outputs);
    require_influence(kept_->pulled_back.defined());
    return;
  }
  block_samples_ = std::clamp<int64_t>(kStreamBytes / per_sample, 1, block_samples_);
  const torch::NoGradGuard no_graph;
  std::vector<Tensor> outputs;
  for (int64_t i = 0; i < samples; i += block_samples_) {
    outputs.push_back(evaluate(model_, x_.narrow(0, i, std::min(block_samples_, samples - i))));
  }
  outputs_ = torch::cat(outputs);
}

std::vector<Factors> NtkOperator::factors_that_fit() const {
  NtkOptions options;
  options.memory_bytes = options_.memory_bytes;
  options.accumulate = options_.accumulate;
  // As for kernels, results that depend only on the model and shapes are cached.
  const PlanKey key = plan_key(model_, x_, x_.size(0), options, kAllBlocks);
  auto plan = model_.plans().find(key);
  const bool known = plan.has_value();
  try {
    if (!known) plan = plan_that_fits(options);
    if (!plan) return {};
    std::vector<Factors> found = factors_by(*plan, known, options);
    if (!known && !plan->sample_dimensions.empty()) model_.plans().keep(key, *plan);
    return found;
  } catch (const StalePlan&) {
    model_.plans().forget();
    return factors_that_fit();
  } catch (const RefutedRule&) {
    return {};
  }
}

std::optional<KnownPlan> NtkOperator::plan_that_fits(const NtkOptions& options) const {
  const int64_t samples = x_.size(0);
  const FactorCost cost = cost_per_sample(model_, x_, factor_options(options));
  const int64_t width = cost.outputs.size(1);
  if (!cost.by_rules || width > kFewOutputs) return std::nullopt;
  // The other half is for vectors.
  const int64_t room = options_.memory_bytes / 2;
  const int64_t making = cost.bytes(width, 1) + 1;
  int64_t at_a_time = samples;
  if (samples > room / making) {
    at_a_time = std::min(kStreamBytes, room - samples * cost.kept_bytes(width)) / making;
    if (at_a_time < kFewSamples) return std::nullopt;
  }
  return KnownPlan{{at_a_time, width}, at_a_time * making, width, {}};
}

FactorOptions NtkOperator::factor_options(const NtkOptions& options) const {
  FactorOptions by_rules;
  by_rules.samples = x_.size(0);
  by_rules.rules_only = true;
  by_rules.accumulate = options.accumulate;
  return by_rules;
}

std::vector<Factors> NtkOperator::factors_by(KnownPlan& plan, bool known,
                                             const NtkOptions& options) const {
  const int64_t samples = x_.size(0);
  CheckedFactors source(model_, options, factor_options(options));
  if (known) {
    source.adopt(plan, samples);
  } else {
    source.plan(x_, samples, 1);
  }
  std::vector<Factors> found;
  for (int64_t first = 0; first < samples; first += plan.blocks.samples) {
    const int64_t count = std::min(plan.blocks.samples, samples - first);
    found.push_back(source.factors_of(x_, {first, count, 0, plan.width}));
    source.check(found.back());
    found.back().pulled_back.clear();
    if (first > 0) source.require_same_groups(found.front(), found.back());
  }
  plan.sample_dimensions = source.sample_dimensions().value_or(std::vector<int64_t>());
  return found;
}

NtkOperator::Graphs NtkOperator::extended(const Tensor& outputs) const {
  Graphs graphs{outputs, torch::zeros_like(outputs).requires_grad_(), {}};
  if (!outputs.requires_grad()) return graphs;
  const auto pulled = gradients_at(model_.parameters(), outputs, graphs.seed, Graph::kExtended);
  if (std::any_of(pulled.begin(), pulled.end(), [](const Tensor& t) { return t.defined(); })) {
    graphs.pulled_back = flatten(model_, pulled);
  }
  return graphs;
}

void NtkOperator::pull_back_graph(const Tensor& outputs, const Tensor& columns,
                                  const Tensor& U) const {
  if (!outputs.requires_grad()) return;
  for (int64_t k = 0; k < U.size(0); ++k) {
    const auto pulled = gradients_at(model_.parameters(), outputs,
                                     columns.select(1, k).reshape(outputs.sizes()), Graph::kKept);
    interruption_point();
    const auto sums = unflatten(model_, U[k]);
    for (size_t p = 0; p < pulled.size(); ++p) {
      if (pulled[p].defined()) sums[p].add_(pulled[p]);
    }
  }
}

void NtkOperator::push_forward_graph(const Graphs& graphs, const Tensor& U,
                                     const Tensor& columns) const {
  for (int64_t k = 0; k < U.size(0); ++k) {
    Tensor column = columns.select(1, k);
    if (!graphs.pulled_back.defined()) {
      column.zero_();
      continue;
    }
    column.copy_(
        gradients_at({graphs.seed}, graphs.pulled_back, U[k], Graph::kKept)[0].reshape({-1}));
    interruption_point();
  }
}

void NtkOperator::require_unchanged() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor p = model_.parameters()[i].detach();
    CDT_REQUIRE(same_values(p, parameters_[i]), "parameter ", i,
                " changed since the operator was made; make a new one");
  }
  CDT_REQUIRE(
      version_of(x_) == x_version_ && (!x_values_.defined() || same_values(x_.detach(), x_values_)),
      "the inputs changed since the operator was made; make a new one");
}

namespace {

/// A vector [length] or a block of them, in the network's dtype or float64.
void require_vectors(const Tensor& V, const char* name, int64_t length, const Model& model) {
  CDT_REQUIRE(V.defined() && (V.dim() == 1 || V.dim() == 2) && V.size(0) == length, name,
              " must be a vector [", length, "] or a block of vectors [", length, ", k], got ",
              V.defined() ? V.sizes() : torch::IntArrayRef());
  CDT_REQUIRE((V.scalar_type() == model.dtype() || V.scalar_type() == torch::kFloat64) &&
                  V.device() == model.device(),
              name, " must be ", model.dtype(), " or float64 on ", model.device(), ", got ",
              V.scalar_type(), " on ", V.device());
  require_finite(V, name);
}

std::vector<int64_t> shaped(const Tensor& like, int64_t length) {
  return like.dim() == 1 ? std::vector{length} : std::vector{length, like.size(1)};
}

}  // namespace

Tensor NtkOperator::apply(const Tensor& V) const {
  const KernelScope scope;
  require_vectors(V, "V", size(), model_);
  require_unchanged();
  return kernel_columns(V.detach().reshape({size(), -1})).reshape(V.sizes()).to(V.scalar_type());
}

Tensor NtkOperator::pull_back(const Tensor& V) const {
  const KernelScope scope;
  require_vectors(V, "V", size(), model_);
  if (!by_factors()) require_unchanged();
  const int64_t P = model_.parameter_count();
  Tensor found = torch::empty({P, V.dim() == 1 ? 1 : V.size(1)}, V.options());
  const Tensor columns = V.detach().reshape({size(), -1});
  in_parts(found.size(1), V.scalar_type(), [&](int64_t k, int64_t count) {
    found.narrow(1, k, count).copy_(pulled(columns.narrow(1, k, count).contiguous()).t());
  });
  return found.view(shaped(V, P));
}

Tensor NtkOperator::push_forward(const Tensor& U) const {
  const KernelScope scope;
  require_vectors(U, "U", model_.parameter_count(), model_);
  if (!by_factors()) require_unchanged();
  Tensor found = torch::empty({size(), U.dim() == 1 ? 1 : U.size(1)}, U.options());
  const Tensor columns = U.detach().reshape({U.size(0), -1});
  in_parts(found.size(1), U.scalar_type(), [&](int64_t k, int64_t count) {
    found.narrow(1, k, count).copy_(pushed(columns.narrow(1, k, count).t().contiguous()));
  });
  return found.view(shaped(U, size()));
}

template <class Part>
void NtkOperator::in_parts(int64_t vectors, torch::ScalarType dtype, const Part& part) const {
  const int64_t bytes = model_.parameter_count() * static_cast<int64_t>(c10::elementSize(dtype));
  const int64_t fitting = std::max<int64_t>(1, options_.memory_bytes / 4 / bytes);
  for (int64_t k = 0; k < vectors; k += fitting) part(k, std::min(fitting, vectors - k));
}

Tensor NtkOperator::kernel_columns(const Tensor& columns) const {
  Tensor products = torch::zeros(columns.sizes(), columns.options());
  if (factors_.size() != 1) {
    in_parts(columns.size(1), columns.scalar_type(), [&](int64_t k, int64_t count) {
      products.narrow(1, k, count).copy_(pushed(pulled(columns.narrow(1, k, count).contiguous())));
    });
    return products;
  }
  for (const FactorGroup& group : factors_.front().groups) {  // vectors of one group at a time
    in_parts(columns.size(1), columns.scalar_type(), [&](int64_t k, int64_t count) {
      products.narrow(1, k, count)
          .add_(kernel_product(group, columns.narrow(1, k, count).contiguous(),
                               slice_entries(options_.memory_bytes, model_.device())));
    });
  }
  return products;
}

Tensor NtkOperator::rows_of(const Tensor& columns, int64_t first, int64_t count) const {
  const int64_t width = outputs_.size(1);
  return columns.narrow(0, first * width, count * width);
}

Tensor NtkOperator::pulled(const Tensor& columns) const {
  if (by_factors()) {
    const Tensor U = torch::zeros({columns.size(1), model_.parameter_count()}, columns.options());
    const int64_t slice = slice_entries(options_.memory_bytes, model_.device());
    int64_t sample = 0;
    for (const Factors& block : factors_) {
      const Tensor own = rows_of(columns, sample, block.samples);
      sample += block.samples;
      add_pull_back(model_, block.groups, own, slice, U);
      interruption_point();
    }
    return U;
  }
  const Tensor some = columns.to(model_.dtype());
  const Tensor U = torch::zeros({some.size(1), model_.parameter_count()}, some.options());
  if (kept_) {
    pull_back_graph(kept_->outputs, some, U);
  } else {
    for (int64_t i = 0; i < x_.size(0); i += block_samples_) {
      const int64_t b = std::min(block_samples_, x_.size(0) - i);
      pull_back_graph(evaluate(model_, x_.narrow(0, i, b)), rows_of(some, i, b), U);
    }
  }
  return U;
}

Tensor NtkOperator::pushed(const Tensor& U) const {
  if (by_factors()) {
    Tensor product = torch::zeros({size(), U.size(0)}, U.options());
    const int64_t slice = slice_entries(options_.memory_bytes, model_.device());
    int64_t sample = 0;
    for (const Factors& block : factors_) {
      const Tensor own = rows_of(product, sample, block.samples);
      sample += block.samples;
      add_push_forward(model_, block.groups, U, slice, own);
      interruption_point();
    }
    return product;
  }
  const Tensor some = U.to(model_.dtype());
  const Tensor found = torch::empty({size(), U.size(0)}, some.options());
  if (kept_) {
    push_forward_graph(*kept_, some, found);
  } else {
    for (int64_t i = 0; i < x_.size(0); i += block_samples_) {
      const int64_t b = std::min(block_samples_, x_.size(0) - i);
      push_forward_graph(extended(evaluate(model_, x_.narrow(0, i, b))), some,
                         rows_of(found, i, b));
    }
  }
  return found;
}

double NtkOperator::trace() const {
  require_unchanged();
  if (by_factors()) {
    const KernelScope scope;
    double trace = 0;
    for (const Factors& block : factors_) {
      for (const FactorGroup& group : block.groups) trace += exact_trace(group);
    }
    if (!std::isfinite(trace)) throw NumericalError(kKernelOverflow);
    return trace;
  }
  NtkOptions options;
  options.memory_bytes = options_.memory_bytes;
  return ntk_trace(model_, x_, options);
}

}  // namespace cdt::kernel
