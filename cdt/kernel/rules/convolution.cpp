/// Convolutions and transposed convolutions: linear layers whose inputs are patches, one per
/// position of the output, J_i = Σ_p g_ip patch_ipᵀ. For a transposed one the gradient is unfolded
/// into patches, one per position of the input.
#include <cdt/kernel/product/tiling.h>
#include <cdt/kernel/rules/table.h>

#include <algorithm>

namespace cdt::kernel::rules {
namespace {

using torch::Tensor;
using Use = std::optional<ParameterUse>;
using Sizes = std::vector<int64_t>;

int64_t product_of(const Sizes& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

/// Positions of the patches, by dimension.
struct PatchGrid {
  Sizes kernel;
  Sizes stride;
  Sizes padding;  ///< before the first entry; after the last as much as positions require
  Sizes dilation;
  Sizes positions;

  /// Patches of x [m, C, s…] as a view of its padded entries: [m, C, kernel…, positions…].
  Tensor cut(const Tensor& x) const {
    const auto d = static_cast<int64_t>(kernel.size());
    Sizes pads;  // LibTorch pads the last dimension first
    for (int64_t i = d - 1; i >= 0; --i) {
      const int64_t reach = (positions[i] - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1;
      pads.insert(pads.end(), {padding[i], reach - padding[i] - x.size(2 + i)});
    }
    const bool fits = std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
    const Tensor padded = fits ? x : torch::constant_pad_nd(x, pads);
    Sizes sizes{x.size(0), x.size(1)};
    sizes.insert(sizes.end(), kernel.begin(), kernel.end());
    sizes.insert(sizes.end(), positions.begin(), positions.end());
    Sizes strides{padded.stride(0), padded.stride(1)};
    for (int64_t i = 0; i < d; ++i) strides.push_back(padded.stride(2 + i) * dilation[i]);
    for (int64_t i = 0; i < d; ++i) strides.push_back(padded.stride(2 + i) * stride[i]);
    return padded.as_strided(sizes, strides);
  }

  /// [m, C·K, P], K entries of the kernel and P positions; a copy.
  Tensor columns(const Tensor& x) const {
    return cut(x).reshape({x.size(0), x.size(1) * product_of(kernel), product_of(positions)});
  }

  /// The same as [m, P, C·K].
  Tensor rows(const Tensor& x) const {
    const auto d = static_cast<int64_t>(kernel.size());
    Sizes order{0};
    for (int64_t i = 0; i < d; ++i) order.push_back(2 + d + i);
    for (int64_t i = 0; i <= d; ++i) order.push_back(1 + i);
    return cut(x).permute(order).reshape(
        {x.size(0), product_of(positions), x.size(1) * product_of(kernel)});
  }
};

class ConvolutionSite : public Site {
 public:
  Use weight;  ///< [out, in/groups, kernel…], or [in, out/groups, kernel…] of a transposed one
  Use bias;
  PatchGrid grid;
  int64_t groups = 1;
  bool transposed = false;

  SiteCost cost(int64_t samples) const override {
    SiteCost cost;
    cost.passing = product_of(output_shape);
    if (!weight) return cost;
    SiteCost::Term term;
    term.use = *weight;
    const int64_t folded = output_shape[0] / samples;
    term.positions = folded * product_of(grid.positions);
    const int64_t patch = product_of(grid.kernel);
    term.in = transposed ? input.size(1) : input.size(1) / groups * patch;
    term.out = transposed ? output_shape[1] / groups * patch : output_shape[1];
    term.rows_only = groups > 1;
    term.kept = samples * term.positions * term.in;
    term.kept_per_output = samples * term.positions * term.out;
    cost.terms.push_back(term);
    return cost;
  }

  void factor(FactorBuilder& build) const override {
    const bool has_weight = weight && build.by_rule(*weight);
    const bool has_bias = bias && build.by_rule(*bias);
    const bool as_rows = groups > 1 || (has_weight && build.as_rows(*weight));
    const bool joined = has_weight && has_bias && !as_rows && !transposed &&
                        build.used_once(*weight) && build.used_once(*bias);
    if (has_bias && !joined) build.add_rows(*bias, bias_rows(build));
    if (!has_weight) return;
    if (as_rows) {
      build.add_rows(*weight, weight_rows(build));
    } else if (joined) {
      build.add_joined(*weight, *bias, outer_product(build, bias->scale));
    } else {
      build.add(*weight, outer_product(build, 0));
    }
  }

 private:
  /// J_i of the bias: G summed over the positions. On a GPU first along a row of positions in its
  /// own dtype, which rounds no more than G was, and avoids a converted copy of all.
  Tensor bias_rows(const FactorBuilder& build) const {
    const Tensor& all = build.gradient;
    const bool by_row = all.is_cuda() && all.dim() > 5;
    const Tensor G =
        (by_row ? all.sum(-1) : all).flatten(4).sum({2, 4}, /*keepdim=*/false, build.accumulate);
    return G.reshape({-1, G.size(2)}) * bias->scale;
  }

  /// Patches of all samples at once, position by position; no groups.
  OuterProduct outer_product(const FactorBuilder& build, double bias_scale) const {
    const int64_t b = build.samples();
    const int64_t c = build.outputs();
    if (transposed) {
      const Tensor patches = grid.rows(build.gradient.flatten(0, 2));
      const Tensor A = input.flatten(2).transpose(1, 2).reshape({b, 1, -1, input.size(1)});
      return {A, patches.view({b, c, -1, patches.size(2)}), true, weight->scale, bias_scale};
    }
    const Tensor patches = grid.rows(input);
    const Tensor G = build.gradient.flatten(4).transpose(3, 4);  // [b, c, T, P, out]
    return {G.reshape({b, c, -1, G.size(4)}), patches.view({b, 1, -1, patches.size(2)}), false,
            weight->scale, bias_scale};
  }

  /// View [n·c·T, groups·d, P] as [n·groups, c·d, T·P], without a copy if two of the three are 1.
  Tensor by_group(const Tensor& t, int64_t n, int64_t c) const {
    const int64_t T = t.size(0) / (n * c);
    const int64_t d = t.size(1) / groups;
    return t.view({n, c, T, groups, d, t.size(2)})
        .permute({0, 3, 1, 4, 2, 5})
        .reshape({n * groups, c * d, T * t.size(2)});
  }

  /// J_i of the weight, [b·c, numel], computed for some samples at a time.
  Tensor weight_rows(const FactorBuilder& build) const {
    const int64_t b = build.samples();
    const int64_t c = build.outputs();
    const int64_t T = build.gradient.size(2);
    const int64_t numel = weight->numel();
    const int64_t patches = (transposed ? c * output_shape[1] : input.size(1)) * T *
                            product_of(grid.kernel) * product_of(grid.positions);
    const int64_t at_a_time = tiling_for(input.device()).patch_entries;
    const int64_t step = std::clamp<int64_t>(at_a_time / std::max<int64_t>(1, patches), 1, b);
    const bool in_order = !transposed && (groups == 1 || c == 1);
    Tensor rows = torch::empty({b * c, numel}, build.gradient.options());
    for (int64_t i = 0; i < b; i += step) {
      const int64_t n = std::min(step, b - i);
      const Tensor x = input.narrow(0, i * T, n * T);
      const Tensor g = build.gradient.narrow(0, i, n).flatten(0, 2);
      const Tensor A = by_group(transposed ? x.flatten(2).contiguous() : grid.columns(x), n, 1);
      const Tensor G = by_group(transposed ? grid.columns(g) : g.flatten(2).contiguous(), n, c);
      Tensor some = rows.narrow(0, i * c, n * c);
      if (in_order) {
        Tensor out = some.view({n * groups, G.size(1), A.size(1)});
        torch::bmm_out(out, G, A.transpose(1, 2));
        continue;
      }
      const Tensor product = G.bmm(A.transpose(1, 2)).view({n, groups, c, -1, A.size(1)});
      const Tensor ordered = product.transpose(1, 2);  // [n, c, groups, of G, of A]
      some.view({n, c, groups, transposed ? A.size(1) : -1, transposed ? -1 : A.size(1)})
          .copy_(transposed ? ordered.transpose(3, 4) : ordered);
    }
    return weight->scale == 1 ? rows : rows.mul_(weight->scale);
  }
};

/// One number per dimension; none if the argument is anything else.
std::optional<Sizes> sizes_of(const c10::IValue& argument, size_t dimensions) {
  if (!argument.isIntList()) return std::nullopt;
  Sizes sizes = argument.toIntVector();
  if (sizes.size() == 1) sizes.resize(dimensions, sizes.front());
  if (sizes.size() != dimensions) return std::nullopt;
  return sizes;
}

/// Indices of a call's arguments.
struct Places {
  size_t stride = 3;
  size_t padding = 4;
  size_t dilation = 5;
  size_t groups = 6;
};

std::unique_ptr<Site> site_of(const Call& call, const Places& places, bool transposed) {
  if (call.size() <= std::max({places.groups, places.dilation}) || !call.is_tensor(0) ||
      !call.is_tensor(1)) {
    return nullptr;
  }
  const Tensor& x = call.tensor(0);
  const Tensor& w = call.tensor(1);
  // An input without a batch dimension has no samples.
  if (w.dim() < 3 || x.dim() != w.dim() || call.output().dim() != w.dim()) return nullptr;
  auto site = std::make_unique<ConvolutionSite>();
  site->grid.kernel = w.sizes().slice(2).vec();
  site->grid.positions = (transposed ? x : call.output()).sizes().slice(2).vec();
  const size_t d = site->grid.kernel.size();
  const auto stride = sizes_of(call[places.stride], d);
  const auto dilation = sizes_of(call[places.dilation], d);
  if (!stride || !dilation || !call[places.groups].isInt()) return nullptr;
  std::optional<Sizes> padding = sizes_of(call[places.padding], d);
  if (call[places.padding].isString()) {
    const bool same = call[places.padding].toStringRef() == "same";
    padding = Sizes(d, 0);
    for (size_t i = 0; same && i < d; ++i) {
      (*padding)[i] = (*dilation)[i] * (site->grid.kernel[i] - 1) / 2;
    }
  }
  if (!padding) return nullptr;
  site->grid.stride = *stride;
  site->grid.dilation = *dilation;
  site->grid.padding = *padding;
  site->groups = call[places.groups].toInt();
  site->transposed = transposed;
  const Use weight = call.parameter(1);
  if (weight && !weight->transposed && !call.parameter(0)) {
    site->weight = weight;
    site->uses.push_back(*weight);
    site->input = x;
    site->input_version = call.version(0);
  }
  if (const Use bias = call.parameter(2)) {
    site->bias = bias;
    site->uses.push_back(*bias);
  }
  return site->uses.empty() ? nullptr : std::move(site);
}

/// conv2d(x, W, b, stride, padding, dilation, groups)
std::unique_ptr<Site> convolution_call(const Call& call) { return site_of(call, {}, false); }

/// conv_transpose2d(x, W, b, stride, padding, output padding, groups, dilation)
std::unique_ptr<Site> transposed_call(const Call& call) {
  return site_of(call, {3, 4, 7, 6}, true);
}

/// convolution(x, W, b, stride, padding, dilation, transposed, output padding, groups, …)
std::unique_ptr<Site> general_call(const Call& call) {
  return site_of(call, {3, 4, 5, 8}, call.is_true(6));
}

}  // namespace

std::vector<Rule> convolution() {
  return {{{"aten::conv1d", "aten::conv2d", "aten::conv3d"}, nullptr, convolution_call},
          {{"aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d"},
           nullptr,
           transposed_call},
          {{"aten::convolution", "aten::_convolution"}, nullptr, general_call}};
}

}  // namespace cdt::kernel::rules
