#include <cdt/kernel/factor/factor_cost.h>
#include <cdt/kernel/record/group_builder.h>

#include <map>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// A pass over a product of two positions costs as much as this many multiply-adds.
constexpr double kPassOverPair = 64;

/// Whether J of a weight [out, in] with this many positions per sample is kept as rows, over all
/// samples b: if per-sample gradients and one Gram product need fewer multiply-adds than all pairs
/// of positions. If lean, rows that need more than twice the memory of outer products must save
/// half of the multiply-adds.
bool rows_are_cheaper(int64_t samples, int64_t outputs, const SiteCost::Term& weight, bool lean) {
  const auto b = static_cast<double>(samples);
  const auto c = static_cast<double>(outputs);
  const double n = b * c;
  const auto t = static_cast<double>(weight.positions);
  const auto out = static_cast<double>(weight.out);
  const auto weights = static_cast<double>(weight.in) * out;
  const double of_a_pair = weight.one_hot ? 1 : static_cast<double>(weight.in);
  const double pairwise =
      t * t * (n * n * out + b * b * of_a_pair) + (t * t - 1) * n * n * kPassOverPair;
  const bool rows_are_large = c * weights > 2 * t * (of_a_pair + c * out);
  const double worth = lean && rows_are_large ? 2 : 1;
  return worth * (n * t * weights + n * n * weights) < pairwise;
}

/// Cost of all recorded samples.
FactorCost cost_of(const Model& model, const Recording& recording, const FactorOptions& options) {
  const int64_t samples = recording.outputs.size(0);
  const auto bytes = static_cast<int64_t>(c10::elementSize(model.dtype()));
  const auto wide = static_cast<int64_t>(c10::elementSize(options.accumulate));
  FactorCost cost;
  cost.outputs = recording.outputs.detach();
  cost.graph_bytes = recording.activation_bytes;
  const std::set<size_t> as_rows = weights_as_rows(model, recording, options);
  std::set<size_t> counted;
  for (const auto& site : recording.sites) {
    const SiteCost needs = site->cost(samples);
    cost.shared_bytes += needs.shared * bytes;
    cost.output_bytes += needs.per_output * bytes;
    // The probe's gradient, and pieces converted to the accumulation dtype.
    cost.graph_bytes += needs.shared * (bytes + wide);
    cost.working_bytes += needs.per_output * (bytes + wide);
    // A gradient per output; then the probe's, and the weighted sum of the others.
    cost.working_bytes += needs.passing * bytes;
    cost.probe_bytes += needs.passing * 2 * bytes;
    for (const SiteCost::Term& term : needs.terms) {
      const size_t p = term.use.parameter;
      if (!as_rows.count(p)) {
        cost.shared_bytes += term.kept * bytes;
        cost.output_bytes += term.kept_per_output * bytes;
      } else if (counted.insert(p).second) {
        cost.output_bytes += samples * recording.entries_of(p, model) * bytes;
      }
    }
  }
  for (const size_t p : as_rows) {  // not counted by a term: behind computed operands
    if (counted.insert(p).second)
      cost.output_bytes += samples * recording.entries_of(p, model) * bytes;
  }
  for (size_t p = 0; p < model.parameters().size(); ++p) {
    if (!recording.used[p]) continue;
    if (options.all_by_jacobian || options.by_jacobian.count(p) || !recording.covered[p]) {
      cost.by_rules = false;
      cost.output_bytes += samples * static_cast<int64_t>(model.parameters()[p].nbytes());
    }
  }
  return cost;
}

}  // namespace

std::set<size_t> weights_as_rows(const Model& model, const Recording& recording,
                                 const FactorOptions& options) {
  const int64_t samples = recording.outputs.size(0);
  const int64_t outputs = recording.outputs.size(1);
  std::map<size_t, SiteCost::Term> weights;
  for (const auto& site : recording.sites) {
    for (const SiteCost::Term& term : site->cost(samples).terms) {
      const auto [it, is_new] = weights.try_emplace(term.use.parameter, term);
      SiteCost::Term& all = it->second;
      all.rows_only = all.rows_only || term.rows_only ||
                      !lies_in_rows(term.use, recording.entries_of(term.use.parameter, model)) ||
                      columns_of(term.use) != columns_of(all.use) || term.one_hot != all.one_hot;
      if (!is_new) all.positions += term.positions;
    }
  }
  std::set<size_t> as_rows;
  for (const auto& [parameter, weight] : weights) {
    if (weight.rows_only || rows_are_cheaper(options.samples, outputs, weight, options.lean)) {
      as_rows.insert(parameter);
    }
  }
  for (const auto& site : recording.sites) {
    for (const ParameterUse& use : site->uses) {
      const std::span<const size_t> behind = recording.made_from(use.parameter);
      if (!behind.empty()) as_rows.insert(use.parameter);
      as_rows.insert(behind.begin(), behind.end());
    }
  }
  return as_rows;
}

FactorCost cost_per_sample(const Model& model, const Tensor& x, const FactorOptions& options) {
  return on_few_samples(x, [&](const Tensor& few) {
    PendingChecks checks;
    FactorCost cost = cost_of(model, record(model, few, checks), options);
    checks.settle();
    for (int64_t* bytes : {&cost.shared_bytes, &cost.output_bytes, &cost.graph_bytes,
                           &cost.working_bytes, &cost.probe_bytes}) {
      *bytes /= few.size(0);
    }
    return cost;
  });
}

}  // namespace cdt::kernel
