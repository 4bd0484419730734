#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/factors.h>
#include <cdt/kernel/recorder.h>
#include <torch/csrc/autograd/engine.h>

#include <map>
#include <optional>

namespace cdt::kernel {
namespace {

using torch::Tensor;
using torch::autograd::Edge;

/// Entries of a temporary product of positions; larger ones are cut into slices of samples.
constexpr int64_t kSliceEntries = int64_t{1} << 23;

/// Gradients of seedᵀoutputs at edges of the graph (not tensors: see Site::edge).
std::vector<Tensor> backward(const Tensor& outputs, const Tensor& seed,
                             const std::vector<Edge>& edges) {
  if (edges.empty()) return {};
  const Edge root = torch::autograd::impl::gradient_edge(outputs);
  return torch::autograd::Engine::get_default_engine().execute({root}, {seed}, /*keep_graph=*/true,
                                                               /*create_graph=*/false,
                                                               /*accumulate_grad=*/false, edges);
}

/// cuDNN may round convolutions to TF32, three digits; a kernel wants all of float32's.
class FullPrecision {
 public:
  FullPrecision() : before_(at::globalContext().allowTF32CuDNN()) {
    at::globalContext().setAllowTF32CuDNN(false);
  }
  ~FullPrecision() { at::globalContext().setAllowTF32CuDNN(before_); }
  FullPrecision(const FullPrecision&) = delete;
  FullPrecision& operator=(const FullPrecision&) = delete;

 private:
  bool before_;
};

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
  std::optional<FactorGroup> jacobian_group() const;

  OuterProduct outer_product(const LiveSite& live, const ParameterUse& bias_or_none,
                             bool with_bias) const;
  Tensor dense_rows(const LiveSite& live, const ParameterUse& use, bool times_input) const;
  Tensor to_rows(const std::vector<OuterProduct>& terms) const;
  bool rows_are_cheaper(const std::vector<OuterProduct>& terms) const;

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
    if (!recording_.used[p]) continue;
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
    const auto gradients = backward(recording_.outputs, seed, edges);
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

/// One backward pass with random signs: gives Jᵀv for the self-check, and shows at each site
/// whether the gradient of sample i's rows answers to sample i's outputs alone, as the rules
/// assume.
void Factorizer::probe() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options_.seed);
  probe_ = torch::randint(0, 2, {samples_, width_}, generator, torch::kFloat64)
               .mul_(2)
               .sub_(1)
               .to(recording_.outputs.options().requires_grad(false));
  std::vector<Edge> edges;
  for (const LiveSite& live : live_) edges.push_back(live.site->edge);
  for (const Tensor& p : model_.parameters()) {
    edges.push_back(torch::autograd::impl::gradient_edge(p));
  }
  const auto gradients = backward(recording_.outputs, probe_, edges);
  const double tolerance = tol::self_check(model_.dtype());
  for (size_t k = 0; k < live_.size(); ++k) {
    if (!gradients[k].defined()) continue;
    const Tensor& G = live_[k].gradient;
    std::vector<int64_t> signs(G.dim(), 1);
    signs[0] = samples_;
    signs[1] = width_;
    const Tensor promised =
        width_ == 1 ? (G * probe_.view(signs)).squeeze(1) : (G * probe_.view(signs)).sum(1);
    const Tensor actual = gradients[k].reshape(promised.sizes());
    const double gap = (promised - actual).abs_().max().item<double>();
    const double size = actual.abs().max().item<double>();
    if (!(gap <= tolerance * size)) {
      send_to_jacobian(*live_[k].site, "the gradient at its layer mixes samples");
    }
  }
  pulled_back_.assign(gradients.begin() + static_cast<int64_t>(live_.size()), gradients.end());
}

OuterProduct Factorizer::outer_product(const LiveSite& live, const ParameterUse& bias,
                                       bool with_bias) const {
  const ParameterUse& use = *live.site->weight;
  const int64_t out = live.site->output_shape.back();
  const int64_t in = live.site->input.size(-1);
  Tensor G = live.gradient.reshape({samples_, width_, -1, out}).to(options_.accumulate);
  Tensor A = live.site->input.reshape({samples_, 1, -1, in}).to(options_.accumulate);
  if (use.scale != 1) A = A * use.scale;
  if (with_bias) {  // a bias is the weight of a constant input
    A = torch::cat({A, torch::full({samples_, 1, A.size(2), 1}, bias.scale, A.options())}, -1);
  }
  return use.transposed ? OuterProduct{G, A} : OuterProduct{A, G};
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

bool Factorizer::rows_are_cheaper(const std::vector<OuterProduct>& terms) const {
  // Multiply-adds per block of b samples, against itself.
  const auto b = static_cast<double>(options_.typical_samples);
  const auto width = static_cast<double>(width_);
  double positions = 0;
  double pairwise = 0;
  const auto d0 = static_cast<double>(terms[0].left.size(3));
  const auto d1 = static_cast<double>(terms[0].right.size(3));
  for (const auto& s : terms) {
    positions += static_cast<double>(s.left.size(2));
    for (const auto& t : terms) {
      const double pairs = b * b * static_cast<double>(s.left.size(2) * t.left.size(2));
      pairwise += pairs * (static_cast<double>(s.left.size(1) * t.left.size(1)) * d0 +
                           static_cast<double>(s.right.size(1) * t.right.size(1)) * d1);
    }
  }
  const double rows = b * width * positions * d0 * d1 + b * b * width * width * d0 * d1;
  return rows < pairwise;
}

Tensor Factorizer::to_rows(const std::vector<OuterProduct>& terms) const {
  Tensor rows;
  for (const auto& term : terms) {
    const Tensor product = term.left.transpose(-1, -2).matmul(term.right);  // [b, n_L, d₀, d₁]
    rows = rows.defined() ? rows.add_(product) : product;
  }
  return rows.reshape({samples_ * width_, -1});
}

/// Σ_i (Σ_t ‖l_it‖‖r_it‖)²: the trace exactly for one position, an upper bound for more.
double trace_bound(const FactorGroup& group) {
  if (group.rows.defined())
    return torch::dot(group.rows.flatten(), group.rows.flatten()).item<double>();
  Tensor sizes;
  for (const auto& term : group.terms) {
    const Tensor size = (term.left.norm(2, -1) * term.right.norm(2, -1)).sum(-1);
    sizes = sizes.defined() ? sizes + size : size;
  }
  return sizes.square().sum().item<double>();
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
      group.terms.push_back(outer_product(live, joined ? *site.bias : ParameterUse{}, joined));
    }
    if (has_bias && !joined) add_rows(live, *site.bias, false);
    if (site.scale && by_rule(site.scale->parameter)) add_rows(live, *site.scale, true);
  }
  std::vector<FactorGroup> result;
  for (auto& [parameter, group] : groups) {
    if (!group.terms.empty()) {
      // A parameter that is a weight here and a bias or a scale there: one form for all.
      if (group.rows.defined() || rows_are_cheaper(group.terms)) {
        const Tensor rows = to_rows(group.terms);
        group.rows = group.rows.defined() ? group.rows + rows : rows;
        group.terms.clear();
      }
    }
    group.trace = trace_bound(group);
    result.push_back(std::move(group));
  }
  return result;
}

/// Rows of J for every parameter that no rule covers: each sample alone, one backward pass per
/// output.
std::optional<FactorGroup> Factorizer::jacobian_group() const {
  FactorGroup group;
  std::vector<Tensor> wanted;
  int64_t columns = 0;
  for (size_t p = 0; p < coverage_.size(); ++p) {
    if (coverage_[p].coverage != Coverage::kJacobian) continue;
    group.parameters.push_back(p);
    wanted.push_back(model_.parameters()[p]);
    columns += wanted.back().numel();
  }
  if (wanted.empty()) return std::nullopt;
  group.rows = torch::zeros({samples_ * width_, columns}, probe_.options());
  const Tensor together = recording_.outputs.detach();
  const double largest = together.abs().max().item<double>();
  for (int64_t i = 0; i < samples_; ++i) {
    const Tensor alone = evaluate(model_, x_.narrow(0, i, 1));
    CDT_REQUIRE(alone.size(1) == width_, "sample ", i, " gives ", alone.size(1),
                " outputs when evaluated alone and ", width_, " in the batch");
    const double gap = (alone.detach() - together.narrow(0, i, 1)).abs().max().item<double>();
    CDT_REQUIRE(
        gap <= tol::coupling(model_.dtype()) * largest, "the outputs of sample ", i, " change by ",
        gap,
        " when it is evaluated alone: a layer of the model mixes samples or is random. "
        "Put batch norm and dropout in eval mode; samples must lie along the first dimension");
    for (int64_t c = 0; c < width_; ++c) {
      const auto gradients =
          torch::autograd::grad({alone.select(1, c)}, wanted, {}, /*retain_graph=*/c + 1 < width_,
                                /*create_graph=*/false, /*allow_unused=*/true);
      Tensor row = group.rows[i * width_ + c];
      int64_t offset = 0;
      for (size_t k = 0; k < wanted.size(); ++k) {
        if (gradients[k].defined()) {
          row.narrow(0, offset, wanted[k].numel()).copy_(gradients[k].reshape({-1}));
        }
        offset += wanted[k].numel();
      }
    }
  }
  group.trace = trace_bound(group);
  return group;
}

Factors Factorizer::run() {
  const FullPrecision exact;
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
  if (auto group = jacobian_group()) factors.groups.push_back(std::move(*group));
  factors.coverage = coverage_;
  factors.probe = probe_.reshape({-1}).to(options_.accumulate);
  factors.pulled_back = pulled_back_;
  return factors;
}

FactorCost Factorizer::cost() const {
  const auto wide = static_cast<int64_t>(c10::elementSize(options_.accumulate));
  FactorCost cost;
  cost.graph_bytes = recording_.activation_bytes;
  for (const Site& site : recording_.sites) {
    int64_t entries = width_;
    for (int64_t size : site.output_shape) entries *= size;
    if (site.input.defined()) entries += site.input.numel();
    cost.factor_bytes += entries * wide;
    cost.graph_bytes += entries * wide;  // G before it is widened, the probe's gradient
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

struct Slice {
  const Factors& factors;
  int64_t first;
  int64_t count;
  int64_t width() const { return factors.outputs.size(1); }
  Tensor of_rows(const Tensor& rows) const {
    return rows.narrow(0, first * width(), count * width());
  }
  Tensor of_samples(const Tensor& t) const { return t.narrow(0, first, count); }
};

/// Σ_{t,t′} (l·l′)(r·r′) for all pairs of samples and outputs: [na, n_L, nb, n_L].
Tensor pair_product(const OuterProduct& s, const OuterProduct& t, const Slice& a, const Slice& b) {
  const auto gram = [&](const Tensor& x, const Tensor& y) {  // [na, c, T, nb, c′, T′]
    const Tensor xs = a.of_samples(x);
    const Tensor ys = b.of_samples(y);
    return xs.reshape({-1, x.size(3)})
        .mm(ys.reshape({-1, y.size(3)}).t())
        .view({a.count, x.size(1), x.size(2), b.count, y.size(1), y.size(2)});
  };
  Tensor left = gram(s.left, t.left);
  Tensor right = gram(s.right, t.right);
  if (left.numel() < right.numel()) std::swap(left, right);
  if (left.size(2) == 1 && left.size(5) == 1 &&
      left.size(1) * left.size(4) >= right.size(1) * right.size(4) &&
      left.size(1) >= right.size(1) && left.size(4) >= right.size(4)) {
    return left.mul_(right).squeeze(5).squeeze(2);
  }
  return (left * right).sum({2, 5});
}

}  // namespace

Factors factorize(const Model& model, const Tensor& x, const FactorOptions& options) {
  return Factorizer(model, x, options).run();
}

FactorCost cost_per_sample(const Model& model, const Tensor& x, const FactorOptions& options) {
  // Of two samples, where there are two: batch norm in training mode refuses one, in words that
  // help nobody.
  const int64_t samples = std::min<int64_t>(2, x.size(0));
  FactorCost cost = Factorizer(model, x.narrow(0, 0, samples), options).cost();
  cost.factor_bytes /= samples;
  cost.graph_bytes /= samples;
  return cost;
}

void add_product(Tensor theta, const Factors& a, int64_t i, int64_t ni, const Factors& b, int64_t j,
                 int64_t nj, double weight, std::vector<double>& probes) {
  const Slice rows{a, i, ni};
  const Slice columns{b, j, nj};
  const Tensor va = rows.of_rows(a.probe);
  const Tensor vb = columns.of_rows(b.probe);
  for (size_t g = 0; g < a.groups.size(); ++g) {
    const FactorGroup& left = a.groups[g];
    const FactorGroup& right = b.groups[g];
    if (left.rows.defined()) {
      const Tensor x = rows.of_rows(left.rows);
      const Tensor y = columns.of_rows(right.rows);
      // Columns in slices: a float32 Jacobian is widened piece by piece.
      const int64_t step = std::max<int64_t>(1, kSliceEntries / std::max(x.size(0), y.size(0)));
      Tensor u = torch::zeros({}, va.options());
      for (int64_t k = 0; k < x.size(1); k += step) {
        const int64_t count = std::min(step, x.size(1) - k);
        const Tensor xk = x.narrow(1, k, count).to(theta.scalar_type());
        const Tensor yk = y.narrow(1, k, count).to(theta.scalar_type());
        theta.addmm_(xk, yk.t());
        u += torch::dot(xk.t().mv(va), yk.t().mv(vb));
      }
      probes[g] += weight * u.item<double>();
      continue;
    }
    for (const OuterProduct& s : left.terms) {
      for (const OuterProduct& t : right.terms) {
        const int64_t per_sample =
            nj * std::max(s.left.size(1) * t.left.size(1), s.right.size(1) * t.right.size(1)) *
            s.left.size(2) * t.left.size(2);
        const int64_t step = std::max<int64_t>(1, kSliceEntries / per_sample);
        for (int64_t k = 0; k < ni; k += step) {
          const Slice some{a, i + k, std::min(step, ni - k)};
          const int64_t n = some.count * some.width();
          const Tensor part = pair_product(s, t, some, columns).view({n, -1});
          theta.narrow(0, k * some.width(), n).add_(part);
          probes[g] += weight * torch::dot(some.of_rows(a.probe), part.mv(vb)).item<double>();
        }
      }
    }
  }
}

}  // namespace cdt::kernel
