#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/backward.h>
#include <cdt/kernel/factors.h>
#include <cdt/kernel/jacobian.h>
#include <cdt/kernel/recorder.h>

#include <map>
#include <optional>

namespace cdt::kernel {
namespace {

using torch::Tensor;
using torch::autograd::Edge;

/// A site with its gradients: G [b, n_L, T, …] where h is seen as [b, T, …].
struct LiveSite {
  const Site* site = nullptr;
  int64_t positions = 1;  ///< T
  Tensor gradient;        ///< [b, n_L, T, d…]
};

/// How often a sample's rows follow each other along the first dimension of h: T for [b·T, …], 1
/// for [b, …].
std::optional<int64_t> rows_per_sample(const Site& site, int64_t samples) {
  if (site.output_shape.empty() || site.output_shape[0] % samples != 0) return std::nullopt;
  return site.output_shape[0] / samples;
}

/// The parameter's shape with ones in front, to fit the per-sample shape of h (which has `rank`
/// dimensions after b and T). None if the parameter varies along the sample dimension.
std::optional<std::vector<int64_t>> aligned_shape(const Tensor& parameter, int64_t rank) {
  std::vector<int64_t> shape = parameter.sizes().vec();
  while (static_cast<int64_t>(shape.size()) > rank) {
    if (shape.front() != 1) return std::nullopt;
    shape.erase(shape.begin());
  }
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

class Factorizer {
 public:
  Factorizer(const Model& model, const Tensor& x, const FactorOptions& options)
      : model_(model), x_(x), options_(options), recording_(record(model, x)) {
    samples_ = recording_.outputs.size(0);
    width_ = recording_.outputs.size(1);
    coverage_.resize(model.parameters().size());
  }

  Factors run();
  FactorCost cost() const;

 private:
  void decide_coverage();
  void send_to_jacobian(const Site& site, const std::string& reason);
  void send_to_jacobian(size_t parameter, const std::string& reason);
  bool by_rule(size_t p) const { return coverage_[p].coverage == Coverage::kRule; }
  bool needed(const Site& site) const;

  void differentiate_sites();
  void probe();
  std::vector<FactorGroup> rule_groups() const;
  void add_jacobian_group(Factors& factors) const;

  OuterProduct outer_product(const LiveSite& live, double bias) const;
  Tensor dense_rows(const LiveSite& live, const ParameterUse& use, bool times_input) const;
  bool rows_are_cheaper(int64_t positions, int64_t in, int64_t out) const;

  const Model& model_;
  const Tensor& x_;
  const FactorOptions& options_;
  Recording recording_;
  int64_t samples_ = 0;
  int64_t width_ = 0;  ///< n_L
  std::vector<ParameterCoverage> coverage_;
  std::vector<LiveSite> live_;
  Tensor probe_;                     ///< [b, n_L], the network's dtype
  std::vector<Tensor> pulled_back_;  ///< by parameter
};

void Factorizer::send_to_jacobian(size_t parameter, const std::string& reason) {
  if (by_rule(parameter)) coverage_[parameter] = {Coverage::kJacobian, reason};
}

void Factorizer::send_to_jacobian(const Site& site, const std::string& reason) {
  for (const auto& use : {site.weight, site.bias, site.scale}) {
    if (use) send_to_jacobian(use->parameter, reason);
  }
}

bool Factorizer::needed(const Site& site) const {
  for (const auto& use : {site.weight, site.bias, site.scale}) {
    if (use && by_rule(use->parameter)) return true;
  }
  return false;
}

void Factorizer::decide_coverage() {
  for (size_t p = 0; p < coverage_.size(); ++p) {
    // What was sent to the Jacobian path stays there in blocks that do not use it: one form in
    // every block.
    if (!recording_.used[p] && !options_.all_by_jacobian && !options_.by_jacobian.count(p))
      continue;
    coverage_[p].coverage = Coverage::kRule;
    if (options_.all_by_jacobian) {
      send_to_jacobian(p, "asked for");
    } else if (options_.by_jacobian.count(p)) {
      send_to_jacobian(p, "its rule failed the self-check");
    } else if (!recording_.covered[p]) {
      send_to_jacobian(p, "it enters through an operator that no rule covers");
    }
  }
  for (const Site& site : recording_.sites) {
    const auto rows = rows_per_sample(site, samples_);
    const auto rank = static_cast<int64_t>(site.output_shape.size()) - 1;
    if (!rows) {
      send_to_jacobian(site, "its samples do not lie along the first dimension");
    } else if (site.input.defined() && site.input._version() != site.input_version) {
      send_to_jacobian(site, "the input of its layer was overwritten");
    }
    for (const auto& use : {site.bias, site.scale}) {
      if (use && !aligned_shape(model_.parameters()[use->parameter], rank)) {
        send_to_jacobian(use->parameter, "it has an entry per sample");
      }
    }
  }
}

/// G at every site, one backward pass per output.
void Factorizer::differentiate_sites() {
  std::vector<Edge> edges;
  for (const Site& site : recording_.sites) {
    if (!needed(site)) continue;
    live_.push_back({&site, *rows_per_sample(site, samples_), {}});
    edges.push_back(site.edge);
  }
  std::vector<std::vector<Tensor>> per_output(edges.size());
  for (int64_t c = 0; c < width_; ++c) {
    Tensor seed = torch::zeros_like(recording_.outputs);
    seed.select(1, c).fill_(1);
    const auto gradients = gradients_at(edges, recording_.outputs, seed, Graph::kKept);
    for (size_t k = 0; k < edges.size(); ++k) {
      per_output[k].push_back(gradients[k].defined()
                                  ? gradients[k]
                                  : torch::zeros(live_[k].site->output_shape, seed.options()));
    }
  }
  for (size_t k = 0; k < edges.size(); ++k) {
    std::vector<int64_t> shape = live_[k].site->output_shape;
    shape[0] = live_[k].positions;
    shape.insert(shape.begin(), samples_);
    for (Tensor& gradient : per_output[k]) gradient = gradient.reshape(shape);
    live_[k].gradient =
        width_ == 1 ? per_output[k][0].unsqueeze(1) : torch::stack(per_output[k], /*dim=*/1);
  }
}

/// One backward pass with random weights v: gives Jᵀv for the self-check, and shows at each site
/// whether the gradient of sample i's rows answers to sample i's outputs alone, as the rules
/// assume. Sizes differ as well as signs: samples of equal weight could be taken for each other
/// unseen.
void Factorizer::probe() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options_.seed);
  const Tensor sizes = torch::rand({samples_, width_}, generator, torch::kFloat64) + 0.5;
  const Tensor signs = torch::randint(0, 2, {samples_, width_}, generator, torch::kFloat64) * 2 - 1;
  probe_ = (sizes * signs).to(recording_.outputs.options().requires_grad(false));
  std::vector<Edge> edges;
  for (const LiveSite& live : live_) edges.push_back(live.site->edge);
  for (const Tensor& p : model_.parameters()) {
    edges.push_back(torch::autograd::impl::gradient_edge(p));
  }
  const auto gradients = gradients_at(edges, recording_.outputs, probe_, Graph::kKept);
  const double tolerance = tol::self_check(model_.dtype());
  for (size_t k = 0; k < live_.size(); ++k) {
    if (!gradients[k].defined()) continue;
    const Tensor& G = live_[k].gradient;
    std::vector<int64_t> shape(G.dim(), 1);
    shape[0] = samples_;
    shape[1] = width_;
    const Tensor parts = G * probe_.view(shape);
    const Tensor promised = width_ == 1 ? parts.squeeze(1) : parts.sum(1);
    const Tensor actual = gradients[k].reshape(promised.sizes());
    // Sample by sample, each against its own size: a large one must not hide the others.
    const Tensor gaps = (promised - actual).abs_().flatten(1).amax(1);
    const Tensor allowed =
        parts.abs().flatten(1).amax(1) * (tolerance * static_cast<double>(width_));
    if (!(gaps <= allowed).all().item<bool>()) {
      send_to_jacobian(*live_[k].site, "the gradient at its layer mixes samples");
    }
  }
  pulled_back_.assign(gradients.begin() + static_cast<int64_t>(live_.size()), gradients.end());
}

OuterProduct Factorizer::outer_product(const LiveSite& live, double bias) const {
  const ParameterUse& use = *live.site->weight;
  const Tensor G = live.gradient.reshape({samples_, width_, -1, live.site->output_shape.back()});
  const Tensor A = live.site->input.reshape({samples_, 1, -1, live.site->input.size(-1)});
  if (use.transposed) return {G, A, false, use.scale, bias};
  return {A, G, true, use.scale, bias};
}

/// J_i for a bias (Σ G over broadcast dimensions) or a scale (Σ G∘x).
Tensor Factorizer::dense_rows(const LiveSite& live, const ParameterUse& use,
                              bool times_input) const {
  Tensor G = live.gradient.to(options_.accumulate);
  if (times_input) {
    Tensor x = live.site->input.expand(live.site->output_shape).to(options_.accumulate);
    std::vector<int64_t> shape = G.sizes().vec();
    shape[1] = 1;
    G = G * x.reshape(shape);
  }
  const Tensor& parameter = model_.parameters()[use.parameter];
  std::vector<int64_t> shape = *aligned_shape(parameter, G.dim() - 3);
  shape.insert(shape.begin(), {samples_, width_, 1});
  return G.sum_to_size(shape).reshape({samples_ * width_, -1}).mul_(use.scale);
}

/// Whether per-sample gradients and one Gram product take fewer multiply-adds than all pairs of
/// positions, for a weight [out, in] that meets so many positions a sample.
bool Factorizer::rows_are_cheaper(int64_t positions, int64_t in, int64_t out) const {
  const auto b = static_cast<double>(options_.samples);
  const auto n = b * static_cast<double>(width_);
  const auto t = static_cast<double>(positions);
  const auto weights = static_cast<double>(in) * static_cast<double>(out);
  const double pairwise =
      t * t * (n * n * static_cast<double>(out) + b * b * static_cast<double>(in));
  return n * t * weights + n * n * weights < pairwise;
}

std::vector<FactorGroup> Factorizer::rule_groups() const {
  const auto& parameters = model_.parameters();
  std::vector<int64_t> uses(parameters.size(), 0);
  for (const LiveSite& live : live_) {
    for (const auto& use : {live.site->weight, live.site->bias, live.site->scale}) {
      if (use) ++uses[use->parameter];
    }
  }
  std::map<size_t, FactorGroup> groups;  // by their first parameter: the same order in every block
  const auto add_rows = [&](const LiveSite& live, const ParameterUse& use, bool times_input) {
    FactorGroup& group = groups[use.parameter];
    group.parameters = {use.parameter};
    const Tensor rows = dense_rows(live, use, times_input);
    group.rows = group.rows.defined() ? group.rows + rows : rows;
  };
  for (const LiveSite& live : live_) {
    const Site& site = *live.site;
    const bool has_weight = site.weight && by_rule(site.weight->parameter);
    const bool has_bias = site.bias && by_rule(site.bias->parameter);
    // A bias joins its weight where both are used once: one product serves the two.
    const bool joined = has_weight && has_bias && uses[site.weight->parameter] == 1 &&
                        uses[site.bias->parameter] == 1 &&
                        parameters[site.bias->parameter].numel() == site.output_shape.back();
    if (has_weight) {
      FactorGroup& group = groups[site.weight->parameter];
      group.parameters = {site.weight->parameter};
      if (joined) group.parameters.push_back(site.bias->parameter);
      group.terms.push_back(outer_product(live, joined ? site.bias->scale : 0.0));
    }
    if (has_bias && !joined) add_rows(live, *site.bias, false);
    if (site.scale && by_rule(site.scale->parameter)) add_rows(live, *site.scale, true);
  }
  std::vector<FactorGroup> result;
  for (auto& [parameter, group] : groups) {
    if (!group.terms.empty()) {
      int64_t positions = 0;
      for (const OuterProduct& term : group.terms) positions += term.left.size(2);
      const OuterProduct& first = group.terms.front();
      const Tensor& input = first.input_is_left ? first.left : first.right;
      const Tensor& gradient = first.input_is_left ? first.right : first.left;
      // A parameter that is a weight here and a bias or a scale there: one form for all.
      if (group.rows.defined() || rows_are_cheaper(positions, input.size(3), gradient.size(3))) {
        const Tensor rows = to_rows(group.terms, options_.accumulate);
        group.rows = group.rows.defined() ? group.rows + rows : rows;
        group.terms.clear();
      }
    }
    group.trace = trace_bound(group);
    result.push_back(std::move(group));
  }
  return result;
}

/// Everything that no rule covers.
void Factorizer::add_jacobian_group(Factors& factors) const {
  FactorGroup group;
  std::vector<Tensor> wanted;
  for (size_t p = 0; p < coverage_.size(); ++p) {
    if (coverage_[p].coverage != Coverage::kJacobian) continue;
    group.parameters.push_back(p);
    wanted.push_back(model_.parameters()[p]);
  }
  if (wanted.empty()) return;
  JacobianRows found = jacobian_rows(model_, x_, factors.outputs, wanted);
  group.rows = std::move(found.rows);
  group.trace = trace_bound(group);
  factors.groups.push_back(std::move(group));
  factors.coupling = found.coupling;
  factors.coupled_sample = found.coupled_sample;
}

Factors Factorizer::run() {
  decide_coverage();
  differentiate_sites();
  probe();
  Factors factors;
  factors.samples = samples_;
  factors.outputs = recording_.outputs.detach();
  factors.groups = rule_groups();
  live_.clear();
  recording_.sites.clear();
  recording_.outputs = factors.outputs;  // frees the graph
  add_jacobian_group(factors);
  factors.coverage = coverage_;
  factors.probe = probe_.reshape({-1}).to(options_.accumulate);
  factors.pulled_back = pulled_back_;
  return factors;
}

FactorCost Factorizer::cost() const {
  const auto bytes = static_cast<int64_t>(c10::elementSize(model_.dtype()));
  const auto wide = static_cast<int64_t>(c10::elementSize(options_.accumulate));
  FactorCost cost;
  cost.outputs = recording_.outputs.detach();
  cost.graph_bytes = recording_.activation_bytes;
  std::map<size_t, int64_t> positions;  // of a weight, over its uses
  std::map<size_t, std::pair<int64_t, int64_t>> shapes;
  for (const Site& site : recording_.sites) {
    int64_t entries = width_;
    for (int64_t size : site.output_shape) entries *= size;
    if (site.input.defined()) entries += site.input.numel();
    cost.factor_bytes += entries * bytes;
    cost.graph_bytes +=
        entries * (bytes + wide);  // the probe's gradient, and pieces that are widened
    if (site.weight) {
      const int64_t in = site.input.size(-1);
      positions[site.weight->parameter] += site.input.numel() / (in * samples_);
      shapes[site.weight->parameter] = {in, site.output_shape.back()};
    }
  }
  for (const auto& [parameter, shape] : shapes) {
    if (rows_are_cheaper(positions[parameter], shape.first, shape.second)) {
      cost.factor_bytes += samples_ * width_ * shape.first * shape.second * wide;
    }
  }
  for (size_t p = 0; p < coverage_.size(); ++p) {
    if (!recording_.used[p]) continue;
    if (options_.all_by_jacobian || options_.by_jacobian.count(p) || !recording_.covered[p]) {
      cost.factor_bytes +=
          samples_ * width_ * static_cast<int64_t>(model_.parameters()[p].nbytes());
    }
  }
  return cost;
}

}  // namespace

Factors factorize(const Model& model, const Tensor& x, const FactorOptions& options) {
  return Factorizer(model, x, options).run();
}

FactorCost cost_per_sample(const Model& model, const Tensor& x, const FactorOptions& options) {
  // Of two samples where there are more: batch norm in training mode refuses one, in words that
  // help nobody.
  const int64_t samples = x.size(0) > 2 ? 2 : 1;
  try {
    FactorCost cost = Factorizer(model, x.narrow(0, 0, samples), options).cost();
    cost.factor_bytes /= samples;
    cost.graph_bytes /= samples;
    return cost;
  } catch (const c10::Error& error) {
    throw InvalidArgument(
        c10::str("the model must take any number of samples, but failed on the first ", samples,
                 " of ", x.size(0), ": ", error.what_without_backtrace()));
  }
}

}  // namespace cdt::kernel
