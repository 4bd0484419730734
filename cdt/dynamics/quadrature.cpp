#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/dynamics/quadrature.h>

#include <algorithm>
#include <cmath>

namespace cdt::dynamics {
namespace {

using torch::Tensor;

/// A Lanczos vector smaller than this share of the operator is rounding: the probe's space is
/// exhausted.
constexpr double kExhausted = 1e-10;

/// Independent Lanczos iterations from several vectors, side by side.
class SideBySide {
 public:
  SideBySide(const KernelProduct& product, const Tensor& V) : product_(product), V_(V) {}

  /// Diagonals [k, p] and off-diagonals [k, p], the last of which is unused; as many steps as
  /// requested, or as the dimension allows.
  std::pair<Tensor, Tensor> run(const Tensor& start, int64_t steps) {
    std::vector<Tensor> diagonals, beside;
    Tensor q = start / start.norm(2, 0);
    Tensor scale = torch::zeros({start.size(1)}, start.options());
    for (int64_t k = 0; k < steps; ++k) {
      basis_.push_back(q);
      Tensor w = product_(q);
      require_shape(w, {q.size(0), q.size(1)}, "the product with a block");
      CDT_REQUIRE(w.scalar_type() == torch::kFloat64,
                  "the product with a block must be float64, got ", w.scalar_type());
      require_finite(w, "the product with a block");
      diagonals.push_back((q * w).sum(0));
      w = without(without(w));  // twice is enough
      const Tensor size = w.norm(2, 0);
      scale = torch::max(scale, diagonals.back().abs() + size);
      // An exhausted probe continues with zeros: nodes of weight zero.
      const Tensor alive = size > kExhausted * scale;
      beside.push_back(torch::where(alive, size, torch::zeros_like(size)));
      q = torch::where(alive, w / size, torch::zeros_like(w));
    }
    return {torch::stack(diagonals), torch::stack(beside)};
  }

  /// w minus its parts in V and in each probe's own basis.
  Tensor without(Tensor w) const {
    if (V_.defined()) w = w - V_.mm(V_.t().mm(w));
    for (const Tensor& q : basis_) w = w - q * (q * w).sum(0);
    return w;
  }

 private:
  const KernelProduct& product_;
  Tensor V_;
  std::vector<Tensor> basis_;
};

TraceEstimate mean_of(const Tensor& each) {
  const auto probes = static_cast<double>(each.numel());
  const double spread = each.numel() > 1 ? each.std().item<double>() : each.abs().item<double>();
  return {each.mean().item<double>(), spread / std::sqrt(probes)};
}

}  // namespace

TraceEstimate SpectralQuadrature::trace(const std::function<Tensor(const Tensor&)>& f) const {
  TraceEstimate sum;
  if (nodes.defined()) sum = mean_of((weights * f(nodes)).sum(1));
  if (known.defined() && known.numel() > 0) sum.value += f(known).sum().item<double>();
  return sum;
}

TraceEstimate SpectralQuadrature::count_from(double lambda) const {
  return trace([lambda](const Tensor& at) { return (at >= lambda).to(torch::kFloat64); });
}

SpectralQuadrature stochastic_quadrature(const KernelProduct& product, int64_t n,
                                         const Modes* modes, const QuadratureOptions& options,
                                         torch::Device device) {
  CDT_REQUIRE(n >= 1 && options.probes >= 1 && options.steps >= 1,
              "a quadrature needs rows, probes and steps, got ", n, ", ", options.probes, " and ",
              options.steps);
  SpectralQuadrature found;
  found.n = n;
  Tensor V;
  if (modes != nullptr) {
    CDT_REQUIRE(modes->size() == n, "expected modes of ", n, " rows, got ", modes->size());
    V = modes->vectors;
    found.known = modes->values;
    if (modes->complete()) return found;
  }
  const auto generator = at::detail::createCPUGenerator(options.seed);
  const Tensor signs =
      2 * torch::randint(0, 2, {n, options.probes}, generator, torch::kFloat64) - 1;
  SideBySide lanczos(product, V);
  const Tensor start = lanczos.without(lanczos.without(signs.to(device)));
  const int64_t room = n - (V.defined() ? V.size(1) : 0);
  const auto [diagonals, beside] = lanczos.run(start, std::min(options.steps, room));
  const int64_t k = diagonals.size(0);
  Tensor T = torch::diag_embed(diagonals.t());  // [p, k, k]
  if (k > 1) {
    const Tensor off = beside.narrow(0, 0, k - 1).t();
    T = T + torch::diag_embed(off, 1) + torch::diag_embed(off, -1);
  }
  const auto [values, vectors] = torch::linalg_eigh(T.cpu());
  found.nodes = values.clamp_min(0);
  // ‖g‖² is random if modes were removed; the dimension of their complement is not.
  found.weights = vectors.select(1, 0).square() * static_cast<double>(room);
  if (found.known.defined()) found.known = found.known.cpu();
  return found;
}

}  // namespace cdt::dynamics
