/// Norms with a scale and a shift, h = γ ∘ x̂ + β: J sums G ∘ x̂ and G over the dimensions that γ
/// and β lack. x̂, the layer without them, is recomputed from its input, sample by sample.
#include <c10/util/accumulate.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/rules/broadcast.h>
#include <cdt/kernel/rules/table.h>

#include <algorithm>
#include <functional>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;
using Use = std::optional<ParameterUse>;

/// Entries of a temporary: about the size of a cache.
constexpr int64_t kNormEntries = int64_t{1} << 18;

class NormSite : public Site {
 public:
  Use scale;
  Use shift;
  std::function<Tensor(const Tensor& x)> normalized;  ///< for any samples, [b·T, …]
  /// Shape of γ and β within the dimensions of a sample: {C, 1, 1} for channels, the last ones for
  /// a layer norm.
  std::vector<int64_t> shape;

  bool samples_may_lie_along(int64_t dimension) const override {
    return broadcast_objection(shape, output_shape.size(), dimension).empty();
  }

  SiteCost cost(int64_t samples) const override {
    SiteCost cost;
    cost.passing = c10::multiply_integers(output_shape);
    for (const ParameterUse& use : uses) cost.per_output += samples * use.numel();
    return cost;
  }

  void factor(FactorBuilder& build) const override {
    const bool has_scale = scale && build.by_rule(*scale);
    const bool has_shift = shift && build.by_rule(*shift);
    const int64_t b = build.samples();
    const int64_t T = build.gradient.size(2);
    const Tensor x = has_scale ? build.samples_first(input) : Tensor();
    const int64_t step = std::clamp<int64_t>(kNormEntries * b / build.gradient.numel(), 1, b);
    std::vector<Tensor> scales;
    std::vector<Tensor> shifts;
    for (int64_t i = 0; i < b; i += step) {
      const int64_t count = std::min(step, b - i);
      const Tensor G = build.gradient.narrow(0, i, count).to(build.accumulate);
      if (has_shift) shifts.push_back(broadcast_rows(G, shape, shift->scale));
      if (!has_scale) continue;
      std::vector<int64_t> beside = G.sizes().vec();
      beside[1] = 1;
      const Tensor entries = normalized(x.narrow(0, i * T, count * T)).reshape(beside);
      scales.push_back(broadcast_rows(G * entries, shape, scale->scale));
    }
    if (has_scale) build.add_rows(*scale, torch::cat(scales));
    if (has_shift) build.add_rows(*shift, torch::cat(shifts));
  }
};

/// The site, given the indices of its arguments.
std::unique_ptr<NormSite> norm_site(const Call& call, size_t scale, size_t shift) {
  if (!call.is_tensor(0) || call.parameter(0)) return nullptr;
  auto site = std::make_unique<NormSite>();
  const auto untransposed = [&](size_t i) {
    const Use use = call.parameter(i);
    return use && use->transposed ? std::nullopt : use;
  };
  site->scale = untransposed(scale);
  site->shift = untransposed(shift);
  for (const Use& use : {site->scale, site->shift}) {
    if (use) site->uses.push_back(*use);
  }
  if (site->scale) {
    site->input = call.tensor(0);
    site->input_version = call.version(0);
  }
  return site->uses.empty() ? nullptr : std::move(site);
}

/// γ and β belong to the channels, the second dimension.
std::unique_ptr<Site> of_channels(const Call& call, size_t scale, size_t shift,
                                  std::function<Tensor(const Tensor&)> normalized) {
  const Tensor& h = call.output();
  if (h.dim() < 2) return nullptr;
  auto site = norm_site(call, scale, shift);
  if (site == nullptr) return nullptr;
  site->normalized = std::move(normalized);
  site->shape.assign(static_cast<size_t>(h.dim() - 1), 1);
  site->shape[0] = h.size(1);
  return site;
}

Tensor optional_tensor(const Call& call, size_t i) {
  return call.is_tensor(i) ? call.tensor(i).detach() : Tensor();
}

/// batch_norm(x, γ, β, mean, variance, training, momentum, ε, …)
std::unique_ptr<Site> batch_norm_call(const Call& call) {
  if (call.is_true(5) || !call.is_tensor(3) || !call.is_tensor(4)) return nullptr;
  return of_channels(call, 1, 2,
                     [mean = optional_tensor(call, 3), variance = optional_tensor(call, 4),
                      epsilon = call.number(7)](const Tensor& x) {
                       return torch::batch_norm(x, {}, {}, mean, variance, /*training=*/false, 0,
                                                epsilon, /*cudnn_enabled=*/false);
                     });
}

/// instance_norm(x, γ, β, mean, variance, use the input's statistics, momentum, ε, …)
std::unique_ptr<Site> instance_norm_call(const Call& call) {
  const bool own = call.is_true(5);
  return of_channels(call, 1, 2,
                     [mean = own ? Tensor() : optional_tensor(call, 3),
                      variance = own ? Tensor() : optional_tensor(call, 4), own,
                      epsilon = call.number(7)](const Tensor& x) {
                       return torch::instance_norm(x, {}, {}, mean, variance, own, 0, epsilon,
                                                   /*cudnn_enabled=*/false);
                     });
}

/// group_norm(x, groups, γ, β, ε, …)
std::unique_ptr<Site> group_norm_call(const Call& call) {
  return of_channels(call, 2, 3,
                     [groups = call[1].toInt(), epsilon = call.number(4)](const Tensor& x) {
                       return torch::group_norm(x, groups, {}, {}, epsilon, false);
                     });
}

/// layer_norm(x, shape, γ, β, ε, …)
std::unique_ptr<Site> layer_norm_call(const Call& call) {
  auto site = norm_site(call, 2, 3);
  if (site == nullptr || !call[1].isIntList()) return nullptr;
  site->shape = call[1].toIntVector();
  site->normalized = [shape = site->shape, epsilon = call.number(4)](const Tensor& x) {
    return torch::layer_norm(x, shape, {}, {}, epsilon, false);
  };
  return site;
}

/// rms_norm(x, shape, γ, ε), in newer versions of LibTorch.
std::unique_ptr<Site> rms_norm_call(const Call& call) {
  auto site = norm_site(call, 2, /*shift: none=*/call.size());
  if (site == nullptr || !call[1].isIntList()) return nullptr;
  site->shape = call[1].toIntVector();
  const double epsilon =
      call[3].isNone() ? tol::epsilon(call.tensor(0).scalar_type()) : call.number(3);
  std::vector<int64_t> dimensions;
  for (size_t i = 0; i < site->shape.size(); ++i) {
    dimensions.push_back(-1 - static_cast<int64_t>(i));
  }
  site->normalized = [dimensions, epsilon](const Tensor& x) {
    return x * torch::rsqrt(x.square().mean(dimensions, /*keepdim=*/true) + epsilon);
  };
  return site;
}

/// An instance norm that tracks statistics computes the same function, but each pass updates them.
Refusal tracking(const Call& call) {
  if (!call.is_true(5) || !call.is_tensor(3)) return {};
  Refusal refusal;
  refusal.reason =
      "instance norm in training mode moves its running statistics with every pass; call eval() on "
      "the model first";
  for (const size_t statistic : {size_t{3}, size_t{4}}) {
    if (call.is_tensor(statistic)) refusal.moved.push_back(call.tensor(statistic));
  }
  return refusal;
}

}  // namespace

std::vector<Rule> norm() {
  return {{{"aten::batch_norm", "aten::native_batch_norm"}, nullptr, batch_norm_call},
          {{"aten::instance_norm"}, nullptr, instance_norm_call, tracking},
          {{"aten::group_norm"}, nullptr, group_norm_call},
          {{"aten::layer_norm", "aten::native_layer_norm"}, nullptr, layer_norm_call},
          {{"aten::rms_norm"}, nullptr, rms_norm_call}};
}

}  // namespace cdt::kernel::rules
