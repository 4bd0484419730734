#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/factor/factor_cost.h>
#include <cdt/kernel/factor/factors.h>
#include <cdt/kernel/factor/jacobian.h>
#include <cdt/kernel/product/sizes.h>
#include <cdt/kernel/record/group_builder.h>
#include <cdt/kernel/record/live_site.h>
#include <cdt/kernel/record/recorder.h>
#include <cdt/kernel/replay/plan_memory.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

namespace cdt::kernel {
namespace {

using torch::Tensor;
using torch::autograd::Edge;

/// Stream number (core/machine/streams.h).
constexpr size_t kPasses = 5;

class Factorizer {
 public:
  Factorizer(const Model& model, const Tensor& x, const FactorOptions& options,
             PendingChecks& checks)
      : model_(model),
        x_(x),
        options_(options),
        checks_(checks),
        passes_(std::make_shared<Aside>(
            options.passes_aside ? model.device() : torch::Device(torch::kCPU), kPasses)) {
    checks.join_when_gathered(passes_);
    passes_->run([&] { recording_ = record(model, x, checks); });
    samples_ = recording_.outputs.size(0);
    all_outputs_ = recording_.outputs.size(1);
    width_ = options.outputs > 0 ? options.outputs : all_outputs_ - options.first_output;
    const bool enough = options.first_output + width_ <= all_outputs_;
    if (!enough && options.sample_dimensions) throw StalePlan();
    CDT_REQUIRE(enough, "the model gives ", all_outputs_,
                " outputs a sample here, and more elsewhere");
    coverage_.resize(model.parameters().size() + recording_.computed.size());
  }

  Factors run();

 private:
  void decide_coverage();
  void send_to_jacobian(const Site& site, const std::string& reason);
  void send_to_jacobian(size_t parameter, const std::string& reason);
  bool by_rule(size_t p) const;
  bool needed(const Site& site) const;

  void differentiate_sites();
  void probe();
  void find_samples(const std::vector<Tensor>& gradients, const Tensor& excess);
  void chain_computed(GroupBuilder& build) const;
  std::vector<FactorGroup> rule_groups();
  void add_traces(std::vector<FactorGroup>& groups);
  void add_jacobian_group(Factors& factors) const;

  const Model& model_;
  const Tensor& x_;
  const FactorOptions& options_;
  PendingChecks& checks_;
  std::shared_ptr<Aside> passes_;
  Recording recording_;
  int64_t samples_ = 0;
  int64_t all_outputs_ = 0;                  ///< n_L
  int64_t width_ = 0;                        ///< outputs of the block
  std::vector<ParameterCoverage> coverage_;  ///< parameters, then computed operands
  std::vector<LiveSite> live_;
  bool samples_found_ = true;        ///< at every site
  Tensor probe_;                     ///< [b, c], in the network's dtype
  std::vector<Tensor> pulled_back_;  ///< per parameter
  std::vector<Tensor> pulled_back_squares_;
};

bool Factorizer::by_rule(size_t p) const {
  if (coverage_[p].coverage != Coverage::kRule) return false;
  const std::span<const size_t> behind = recording_.made_from(p);
  return p < model_.parameters().size() ||
         std::any_of(behind.begin(), behind.end(), [&](size_t each) { return by_rule(each); });
}

void Factorizer::send_to_jacobian(size_t parameter, const std::string& reason) {
  if (coverage_[parameter].coverage != Coverage::kRule) return;
  coverage_[parameter] = {Coverage::kJacobian, reason};
  for (const size_t p : recording_.made_from(parameter)) send_to_jacobian(p, reason);
}

void Factorizer::send_to_jacobian(const Site& site, const std::string& reason) {
  for (const ParameterUse& use : site.uses) send_to_jacobian(use.parameter, reason);
}

bool Factorizer::needed(const Site& site) const {
  return std::any_of(site.uses.begin(), site.uses.end(),
                     [&](const ParameterUse& use) { return by_rule(use.parameter); });
}

void Factorizer::decide_coverage() {
  for (size_t p = 0; p < model_.parameters().size(); ++p) {
    // Parameters on the Jacobian path remain there in blocks that do not use them, so that all
    // blocks have one form.
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
  for (size_t p = model_.parameters().size(); p < coverage_.size(); ++p) {
    coverage_[p].coverage = Coverage::kRule;
  }
  for (const auto& site : recording_.sites) {
    if (sample_dimensions(*site, samples_).empty()) {
      send_to_jacobian(*site, "its samples do not lie along a dimension of its layer");
    } else if (site->input.defined() && version_of(site->input) != site->input_version) {
      send_to_jacobian(*site, "the input of its layer was overwritten");
    }
    for (const ParameterUse& use : site->uses) {
      const auto objection = site->objection(use);
      if (!objection.empty()) send_to_jacobian(use.parameter, objection);
    }
  }
}

/// G at every site, one backward pass per output.
void Factorizer::differentiate_sites() {
  std::vector<Edge> edges;
  for (const auto& site : recording_.sites) {
    if (!needed(*site)) continue;
    live_.push_back({site.get(), sample_dimensions(*site, samples_).front(), {}});
    edges.push_back(site->edge);
  }
  if (options_.sample_dimensions) {
    if (options_.sample_dimensions->size() != live_.size()) throw StalePlan();
    for (size_t k = 0; k < live_.size(); ++k) {
      const int64_t known = (*options_.sample_dimensions)[k];
      const auto possible = sample_dimensions(*live_[k].site, samples_);
      if (std::ranges::find(possible, known) == possible.end()) throw StalePlan();
      live_[k].sample_dimension = known;
    }
  }
  for (int64_t c = 0; c < width_; ++c) {
    Tensor seed;
    if (all_outputs_ == 1) {
      seed = torch::ones_like(recording_.outputs);
    } else {
      seed = torch::zeros_like(recording_.outputs);
      seed.select(1, options_.first_output + c).fill_(1);
    }
    const auto gradients = gradients_at(edges, recording_.outputs, seed, Graph::kKept);
    interruption_point();
    for (size_t k = 0; k < edges.size(); ++k) {
      const LiveSite& live = live_[k];
      const std::vector<int64_t>& shape = live.site->output_shape;
      const Tensor found = gradients[k].defined() ? gradients[k].reshape(shape)
                                                  : torch::zeros(shape, seed.options());
      const Tensor laid = by_sample(found.unsqueeze(0), live.sample_dimension, samples_);
      Tensor& G = live_[k].gradient;
      if (width_ == 1) {
        G = laid;
        continue;
      }
      if (c == 0) {
        std::vector<int64_t> stacked = laid.sizes().vec();
        stacked[1] = width_;
        G = torch::empty(stacked, found.options());
      }
      G.narrow(1, c, 1).copy_(laid);
    }
  }
}

/// One backward pass with random weights v. It gives Jᵀv for the self-check, and shows at each site
/// whether the gradient of sample i's rows depends on sample i's outputs only, as the rules assume.
/// If samples could lie along several dimensions, it determines which.
void Factorizer::probe() {
  probe_ = options_.probe.defined() ? options_.probe
                                    : make_probe(options_.seed, samples_, width_,
                                                 recording_.outputs.options().requires_grad(false));
  std::vector<Edge> edges;
  for (const LiveSite& live : live_) edges.push_back(live.site->edge);
  for (const Tensor& p : model_.parameters()) {
    edges.push_back(torch::autograd::impl::gradient_edge(p));
  }
  Tensor seed = probe_;
  if (width_ < all_outputs_) {
    seed = torch::zeros_like(recording_.outputs);
    seed.narrow(1, options_.first_output, width_).copy_(probe_);
  }
  const auto gradients = gradients_at(edges, recording_.outputs, seed, Graph::kKept);
  if (!live_.empty()) {
    const Tensor all = excess_of(live_, probe_, gradients, tol::self_check(model_.dtype()));
    if (options_.sample_dimensions) {
      checks_.add({all.amax()}, [](const double* largest) {
        if (!(*largest <= 0)) throw StalePlan();
      });
    } else {
      checks_.settle();
      find_samples(gradients, all.amax(1).cpu());
    }
  }
  pulled_back_.assign(gradients.begin() + static_cast<int64_t>(live_.size()), gradients.end());
  std::vector<Tensor> found;
  std::ranges::copy_if(pulled_back_, std::back_inserter(found),
                       [](const Tensor& gradient) { return gradient.defined(); });
  pulled_back_squares_.assign(pulled_back_.size(), Tensor());
  const std::vector<Tensor> squares = squares_in_float64(found);
  auto square = squares.begin();
  for (size_t p = 0; p < pulled_back_.size(); ++p) {
    if (pulled_back_[p].defined()) pulled_back_squares_[p] = *square++;
  }
}

/// Determines the sample dimension at each site, from the gradients of the probe and the excess
/// found with the first possible dimension.
void Factorizer::find_samples(const std::vector<Tensor>& gradients, const Tensor& excess) {
  for (size_t k = 0; k < live_.size(); ++k) {
    LiveSite& live = live_[k];
    bool found = excess[static_cast<int64_t>(k)].item<double>() <= 0;
    for (const int64_t dimension : sample_dimensions(*live.site, samples_)) {
      if (found) break;
      if (dimension == live.sample_dimension) continue;
      live.lay_along(dimension);
      const Tensor there =
          excess_of({live}, probe_, {gradients[k]}, tol::self_check(model_.dtype()));
      found = there.amax().item<double>() <= 0;
    }
    if (!found) send_to_jacobian(*live.site, "the gradient at its layer mixes samples");
    samples_found_ = samples_found_ && found;
  }
}

/// J of parameters behind computed operands: rows of each operand, passed through its own graph.
/// These passes involve only parameters; one backward pass of the network serves all samples.
void Factorizer::chain_computed(GroupBuilder& build) const {
  for (size_t k = 0; k < recording_.computed.size(); ++k) {
    const Tensor rows = build.take_rows(model_.parameters().size() + k);
    if (!rows.defined()) continue;
    const Computed& operand = recording_.computed[k];
    std::vector<size_t> wanted;
    std::vector<Tensor> tensors;
    std::vector<Tensor> found;
    for (const size_t p : operand.parameters) {
      if (!by_rule(p)) continue;
      const Tensor& parameter = model_.parameters()[p];
      wanted.push_back(p);
      tensors.push_back(parameter);
      found.push_back(torch::zeros({rows.size(0), parameter.numel()},
                                   parameter.options().requires_grad(false)));
    }
    for (int64_t i = 0; i < rows.size(0); ++i) {
      const Tensor seed = rows[i].to(operand.value.scalar_type()).view(operand.value.sizes());
      const auto gradients = gradients_at(tensors, operand.value, seed, Graph::kKept);
      interruption_point();
      for (size_t j = 0; j < wanted.size(); ++j) {
        if (gradients[j].defined()) found[j][i].copy_(gradients[j].reshape({-1}));
      }
    }
    for (size_t j = 0; j < wanted.size(); ++j) build.add_rows(wanted[j], found[j]);
  }
}

std::vector<FactorGroup> Factorizer::rule_groups() {
  const std::set<size_t> as_rows = weights_as_rows(model_, recording_, options_);
  std::vector<GroupBuilder::Info> parameters(coverage_.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    parameters[p] = {recording_.entries_of(p, model_), by_rule(p), as_rows.count(p) > 0, 0};
  }
  for (const LiveSite& live : live_) {
    for (const ParameterUse& use : live.site->uses) {
      const std::span<const size_t> behind = recording_.made_from(use.parameter);
      constexpr int64_t kNeverOnce = 2;  // biases never join them
      parameters[use.parameter].uses += behind.empty() ? 1 : kNeverOnce;
      for (const size_t p : behind) parameters[p].uses += kNeverOnce;
    }
  }
  GroupBuilder build(std::move(parameters), options_.accumulate);
  build.slice = options_.slice;
  for (LiveSite& live : live_) {
    build.gradient = std::move(live.gradient);
    build.sample_dimension = live.sample_dimension;
    live.site->factor(build);
    interruption_point();
  }
  build.gradient = Tensor();
  chain_computed(build);
  auto groups = build.take();
  // Each parameter covered by rules must be in exactly one group, since the self-check sees groups
  // only.
  std::vector<int64_t> times(model_.parameters().size(), 0);
  for (const FactorGroup& group : groups) {
    for (const size_t p : group.parameters) ++times.at(p);
  }
  for (size_t p = 0; p < times.size(); ++p) {
    if (by_rule(p) && times[p] != 1) throw RefutedRule{{p}};
  }
  return groups;
}

/// Scales of the checks; only the checks wait for them.
void Factorizer::add_traces(std::vector<FactorGroup>& groups) {
  const auto traced = std::make_shared<std::vector<FactorGroup>>(groups);
  checks_.beside(model_.device(), [traced] {
    for (FactorGroup& group : *traced) group.trace = trace_bound(group);
  });
  groups = *traced;
}

/// Adds all that no rule covers.
void Factorizer::add_jacobian_group(Factors& factors) const {
  FactorGroup group;
  std::vector<Tensor> wanted;
  for (size_t p = 0; p < model_.parameters().size(); ++p) {
    if (coverage_[p].coverage != Coverage::kJacobian) continue;
    group.parameters.push_back(p);
    wanted.push_back(model_.parameters()[p]);
  }
  if (wanted.empty()) return;
  if (options_.rules_only) throw RefutedRule{group.parameters};
  JacobianRows found =
      jacobian_rows(model_, x_, factors.outputs, wanted, options_.first_output, width_);
  group.rows = std::move(found.rows);
  group.trace = trace_bound(group);
  factors.groups.push_back(std::move(group));
  factors.coupling = found.coupling;
  factors.coupled_sample = found.coupled_sample;
}

Factors Factorizer::run() {
  decide_coverage();
  passes_->run([this] { differentiate_sites(); });
  passes_->wait();
  const bool checked = !options_.trusted || !options_.sample_dimensions;
  if (checked) passes_->run([this] { probe(); });
  Factors factors;
  factors.samples = samples_;
  factors.width = width_;
  factors.outputs = recording_.outputs.detach();
  if (samples_found_) {
    factors.sample_dimensions.emplace();
    for (const LiveSite& live : live_) {
      factors.sample_dimensions->push_back(live.sample_dimension);
    }
  }
  factors.groups = rule_groups();
  if (checked) add_traces(factors.groups);
  live_.clear();
  recording_.sites.clear();
  coverage_.resize(model_.parameters().size());
  recording_.computed.clear();
  recording_.outputs = factors.outputs;  // frees the graph
  add_jacobian_group(factors);
  factors.coverage = coverage_;
  if (checked) factors.probe = probe_.reshape({-1}).to(options_.accumulate);
  factors.pulled_back = pulled_back_;
  factors.pulled_back_squares = pulled_back_squares_;
  return factors;
}

}  // namespace

/// Sizes and signs vary: samples of equal weight could be exchanged without detection.
Tensor make_probe(uint64_t seed, int64_t samples, int64_t outputs,
                  const torch::TensorOptions& options) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const Tensor sizes = torch::rand({samples, outputs}, generator, torch::kFloat64) + 0.5;
  const Tensor signs = torch::randint(0, 2, {samples, outputs}, generator, torch::kFloat64) * 2 - 1;
  return (sizes * signs).to(options);
}

Factors factorize(const Model& model, const Tensor& x, const FactorOptions& options,
                  PendingChecks& checks) {
  return Factorizer(model, x, options, checks).run();
}

}  // namespace cdt::kernel
