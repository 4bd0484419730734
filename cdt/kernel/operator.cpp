#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/autograd_scope.h>
#include <cdt/kernel/backward.h>
#include <cdt/kernel/checked_factors.h>
#include <cdt/kernel/factor_product.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/operator.h>
#include <cdt/kernel/recorder.h>

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Factors of more outputs cost more backward passes than a few applications.
constexpr int64_t kFewOutputs = 64;

/// What the graphs of an application hold, in forward passes: activations, those of the backward
/// pass, and as much again while the two are differentiated.
constexpr int64_t kPassesInMemory = 4;

}  // namespace

NtkOperator::NtkOperator(Model model, Tensor x, const OperatorOptions& options)
    : model_(std::move(model)), x_(std::move(x)), options_(options) {
  const KernelScope scope;
  require_samples(x_);
  x_version_ = version_of(x_);
  for (const Tensor& p : model_.parameters()) {
    parameters_.push_back({version_of(p), p.data_ptr()});
  }
  const int64_t samples = x_.size(0);
  if (options_.path == OperatorOptions::Path::kAuto) factors_ = factors_that_fit();
  if (factors_) {
    block_samples_ = samples;
    outputs_ = factors_->outputs;
    return;
  }
  const int64_t per_sample = on_few_samples(x_, [&](const Tensor& few) {
    return kPassesInMemory * record(model_, few).activation_bytes / few.size(0) + 1;
  });
  block_samples_ = std::clamp<int64_t>(options_.memory_bytes / 2 / per_sample, 1, samples);
  if (block_samples_ == samples) {
    const Tensor outputs = differentiable_outputs(model_, x_);
    outputs_ = outputs.detach();
    kept_ = extended(outputs);
    require_influence(kept_->pulled_back.defined());
    return;
  }
  const torch::NoGradGuard no_graph;
  std::vector<Tensor> outputs;
  for (int64_t i = 0; i < samples; i += block_samples_) {
    outputs.push_back(evaluate(model_, x_.narrow(0, i, std::min(block_samples_, samples - i))));
  }
  outputs_ = torch::cat(outputs);
}

std::optional<Factors> NtkOperator::factors_that_fit() const {
  FactorOptions by_rules;
  by_rules.samples = x_.size(0);
  by_rules.rules_only = true;
  const FactorCost cost = cost_per_sample(model_, x_, by_rules);
  const int64_t width = cost.outputs.size(1);
  // The other half is for the vectors.
  const bool fits = x_.size(0) <= options_.memory_bytes / 2 / (cost.bytes(width, 1) + 1);
  if (!cost.by_rules || !fits || width > kFewOutputs) return std::nullopt;
  try {
    NtkOptions options;
    options.memory_bytes = options_.memory_bytes;
    CheckedFactors source(model_, options, by_rules);
    source.plan(x_, x_.size(0), 1);
    Factors factors = source.factors_of(x_, {0, x_.size(0), 0, width});
    source.check(factors);
    factors.pulled_back.clear();
    return factors;
  } catch (const RefutedRule&) {
    return std::nullopt;
  }
}

Tensor NtkOperator::by_factors(const Tensor& columns) const {
  Tensor products = torch::zeros(columns.sizes(), columns.options());
  for (const FactorGroup& group : factors_->groups) {
    int64_t entries = 0;
    for (const size_t p : group.parameters) entries += model_.parameters()[p].numel();
    const int64_t fitting = std::max<int64_t>(1, options_.memory_bytes / 4 / (8 * entries));
    for (int64_t k = 0; k < columns.size(1); k += fitting) {
      const int64_t count = std::min(fitting, columns.size(1) - k);
      products.narrow(1, k, count)
          .add_(kernel_product(group, columns.narrow(1, k, count).contiguous(),
                               slice_entries(options_.memory_bytes)));
    }
  }
  return products;
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

void NtkOperator::pull_back(const Tensor& outputs, const Tensor& columns, const Tensor& U) const {
  if (!outputs.requires_grad()) return;
  for (int64_t k = 0; k < U.size(0); ++k) {
    const auto pulled = gradients_at(model_.parameters(), outputs,
                                     columns.select(1, k).reshape(outputs.sizes()), Graph::kKept);
    const auto sums = unflatten(model_, U[k]);
    for (size_t p = 0; p < pulled.size(); ++p) {
      if (pulled[p].defined()) sums[p].add_(pulled[p]);
    }
  }
}

void NtkOperator::push_forward(const Graphs& graphs, const Tensor& U, const Tensor& columns) const {
  for (int64_t k = 0; k < U.size(0); ++k) {
    Tensor column = columns.select(1, k);
    if (!graphs.pulled_back.defined()) {
      column.zero_();
      continue;
    }
    column.copy_(
        gradients_at({graphs.seed}, graphs.pulled_back, U[k], Graph::kKept)[0].reshape({-1}));
  }
}

void NtkOperator::require_unchanged() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = model_.parameters()[i];
    CDT_REQUIRE(version_of(p) == parameters_[i].version && p.data_ptr() == parameters_[i].data,
                "parameter ", i, " changed since the operator was made; make a new one");
  }
  CDT_REQUIRE(version_of(x_) == x_version_,
              "the inputs changed since the operator was made; make a new one");
}

Tensor NtkOperator::apply(const Tensor& V) const {
  const KernelScope scope;
  CDT_REQUIRE(V.defined() && (V.dim() == 1 || V.dim() == 2) && V.size(0) == size(),
              "V must be a vector [", size(), "] or a block of vectors [", size(), ", k], not ",
              V.defined() ? V.sizes() : torch::IntArrayRef());
  CDT_REQUIRE((V.scalar_type() == model_.dtype() || V.scalar_type() == torch::kFloat64) &&
                  V.device() == model_.device(),
              "V must be ", model_.dtype(), " or float64 on ", model_.device(), ", not ",
              V.scalar_type(), " on ", V.device());
  require_finite(V, "V");
  require_unchanged();
  const Tensor columns = V.detach().reshape({size(), -1});
  return (factors_ ? by_factors(columns) : by_graphs(columns))
      .reshape(V.sizes())
      .to(V.scalar_type());
}

Tensor NtkOperator::by_graphs(const Tensor& V) const {
  const int64_t samples = x_.size(0);
  const int64_t width = outputs_.size(1);
  const int64_t vectors = V.size(1);
  const Tensor columns = V.to(model_.dtype());
  Tensor products = torch::empty_like(columns);
  const auto rows = [&](const Tensor& all, int64_t first, int64_t count) {
    return all.narrow(0, first * width, count * width);
  };
  // Vectors of parameters that fit into the other half of the budget.
  const int64_t bytes =
      model_.parameter_count() * static_cast<int64_t>(c10::elementSize(model_.dtype()));
  const int64_t fitting = std::max<int64_t>(1, options_.memory_bytes / 2 / bytes);
  for (int64_t k = 0; k < vectors; k += fitting) {
    const int64_t count = std::min(fitting, vectors - k);
    const Tensor some = columns.narrow(1, k, count);
    const Tensor found = products.narrow(1, k, count);
    const Tensor U = torch::zeros({count, model_.parameter_count()}, columns.options());
    if (kept_) {
      pull_back(kept_->outputs, some, U);
      push_forward(*kept_, U, found);
      continue;
    }
    for (int64_t i = 0; i < samples; i += block_samples_) {
      const int64_t b = std::min(block_samples_, samples - i);
      pull_back(evaluate(model_, x_.narrow(0, i, b)), rows(some, i, b), U);
    }
    for (int64_t i = 0; i < samples; i += block_samples_) {
      const int64_t b = std::min(block_samples_, samples - i);
      push_forward(extended(evaluate(model_, x_.narrow(0, i, b))), U, rows(found, i, b));
    }
  }
  return products;
}

double NtkOperator::trace() const {
  require_unchanged();
  NtkOptions options;
  options.memory_bytes = options_.memory_bytes;
  return ntk_trace(model_, x_, options);
}

}  // namespace cdt::kernel
