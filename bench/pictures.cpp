#include "bench/pictures.h"

#include <cdt/kernel/ntk.h>
#include <cdt/nn/architectures.h>

namespace cdt::bench {
namespace {

nn::Network picture_network(const std::string& architecture, torch::ScalarType dtype) {
  nn::NetworkOptions options;
  options.architecture = architecture;
  options.input_shape = {3, 96, 96};
  options.outputs = 2;
  return nn::make_network(options, 1, dtype);
}

}  // namespace

PictureProblem::PictureProblem(const std::string& architecture)
    : net(picture_network(architecture, torch::kFloat32)) {
  torch::manual_seed(1);
  x = torch::randn({77, 3, 96, 96});
  y = torch::randn({77, 2});
}

torch::Tensor PictureProblem::exact_kernel() const {
  const nn::Network wide = picture_network(net->architecture(), torch::kFloat64);
  {
    const torch::NoGradGuard no_graph;
    const nn::NamedTensors own = net->saved_tensors();
    for (auto& [name, tensor] : wide->saved_tensors()) torch::Tensor(tensor).copy_(own.at(name));
  }
  return kernel::empirical_ntk(wide, x.to(torch::kFloat64)).theta;
}

}  // namespace cdt::bench
