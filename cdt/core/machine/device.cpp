#include <ATen/Context.h>
#include <cdt/core/machine/device.h>
#include <torch/autograd.h>

namespace cdt {

void prepare_device(torch::Device device) {
  if (!device.is_cuda()) return;
  at::globalContext().setDeterministicCuDNN(true);
  const torch::AutoGradMode with_graph(true);
  const auto x = torch::ones({1}, torch::TensorOptions().device(device).requires_grad(true));
  torch::autograd::grad({x.exp()}, {x}, {torch::ones_like(x)});
  // LibTorch loads its decomposition library on first use, which must not happen on two threads at
  // once.
  torch::linalg_eigvalsh(torch::ones({1, 1}, x.options().requires_grad(false)));
}

}  // namespace cdt
