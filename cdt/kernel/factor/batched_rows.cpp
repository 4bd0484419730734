#include <cdt/core/error.h>
#include <cdt/core/interrupt.h>
#include <cdt/kernel/factor/backward.h>
#include <cdt/kernel/factor/batched_rows.h>
#include <torch/autograd.h>
#if __has_include(<ATen/VmapMode.h>)  // its name in LibTorch 1.13
#include <ATen/VmapMode.h>
#else
#include <ATen/LegacyVmapMode.h>
#endif

#include <algorithm>

namespace cdt::kernel {
namespace {

using torch::Tensor;

/// Vectors per batched product: more than some dozens save no work, but need memory.
constexpr int64_t kVectors = 256;

/// As torch.autograd.grad(is_grads_batched=True): one level of LibTorch's vmap.
class VectorScope {
 public:
  VectorScope() : level_(at::impl::VmapMode::increment_nesting()) {}
  ~VectorScope() { at::impl::VmapMode::decrement_nesting(); }
  VectorScope(const VectorScope&) = delete;
  VectorScope& operator=(const VectorScope&) = delete;

  Tensor wrap(const Tensor& stacked) const { return at::_add_batch_dim(stacked, 0, level_); }
  Tensor unwrap(const Tensor& tensor, int64_t count) const {
    return at::_remove_batch_dim(tensor, level_, count, 0);
  }

 private:
  int64_t level_;
};

/// Seedᵀ·J for each seed [k, …], by parameter [k, …]; undefined if nothing depends on it.
std::vector<Tensor> together(const Tensor& residuals, const std::vector<Tensor>& parameters,
                             const Tensor& seeds) {
  const VectorScope scope;
  std::vector<Tensor> found = torch::autograd::grad({residuals}, parameters, {scope.wrap(seeds)},
                                                    /*retain_graph=*/true, /*create_graph=*/false,
                                                    /*allow_unused=*/true);
  for (Tensor& part : found) {
    if (part.defined()) part = scope.unwrap(part, seeds.size(0));
  }
  return found;
}

/// The same by one backward pass per seed.
std::vector<Tensor> one_by_one(const Tensor& residuals, const std::vector<Tensor>& parameters,
                               const Tensor& seeds) {
  std::vector<std::vector<Tensor>> parts(parameters.size());
  for (int64_t k = 0; k < seeds.size(0); ++k) {
    const auto found = gradients_at(parameters, residuals, seeds[k], Graph::kKept);
    interruption_point();
    for (size_t p = 0; p < found.size(); ++p) {
      Tensor part = found[p].defined() ? found[p] : torch::zeros_like(parameters[p]);
      parts[p].push_back(part.is_sparse() ? part.to_dense() : part);
    }
  }
  std::vector<Tensor> stacked(parameters.size());
  for (size_t p = 0; p < parts.size(); ++p) stacked[p] = torch::stack(parts[p]);
  return stacked;
}

}  // namespace

Tensor batched_rows(const Tensor& residuals, const std::vector<Tensor>& parameters,
                    int64_t memory_bytes) {
  const int64_t n = residuals.numel();
  int64_t count = 0;
  for (const Tensor& p : parameters) count += p.numel();
  const int64_t wanted = n * count * (static_cast<int64_t>(residuals.element_size()) + 8);
  CDT_REQUIRE(wanted <= memory_bytes, "the Jacobian of ", n, " residuals in ", count,
              " parameters takes ", wanted >> 20, " MiB, more than memory=", memory_bytes >> 20,
              " MiB: fewer residuals a step (draw some of the points), a smaller network, or more "
              "memory");
  const Tensor rows = torch::zeros({n, count}, residuals.options().requires_grad(false));
  std::vector<int64_t> shape = residuals.sizes().vec();
  shape.insert(shape.begin(), -1);
  bool batches = true;
  for (int64_t first = 0; first < n; first += kVectors) {
    const int64_t some = std::min(kVectors, n - first);
    const Tensor seeds = torch::zeros({some, n}, rows.options());
    seeds.diagonal(first).fill_(1);
    std::vector<Tensor> parts;
    if (batches) {
      try {
        parts = together(residuals, parameters, seeds.view(shape));
      } catch (const std::exception&) {  // an operator without a batched backward pass
        batches = false;
      }
    }
    if (!batches) parts = one_by_one(residuals, parameters, seeds.view(shape));
    interruption_point();
    int64_t column = 0;
    for (size_t p = 0; p < parameters.size(); ++p) {
      const int64_t entries = parameters[p].numel();
      if (parts[p].defined()) {
        rows.narrow(0, first, some)
            .narrow(1, column, entries)
            .copy_(parts[p].reshape({some, entries}));
      }
      column += entries;
    }
  }
  return rows;
}

}  // namespace cdt::kernel
