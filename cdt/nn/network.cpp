#include <cdt/core/error.h>
#include <cdt/kernel/product/blocks.h>
#include <cdt/nn/network.h>

namespace cdt::nn {
namespace {

torch::Tensor first_parameter(const NetworkImpl& network) {
  const auto parameters = network.parameters();
  CDT_REQUIRE(!parameters.empty(), "the network ", network.describe(), " has no parameters");
  return parameters.front();
}

}  // namespace

int64_t NetworkImpl::parameter_count() const {
  int64_t count = 0;
  for (const torch::Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

torch::ScalarType NetworkImpl::dtype() const { return first_parameter(*this).scalar_type(); }

torch::Device NetworkImpl::device() const { return first_parameter(*this).device(); }

torch::Tensor outputs_of(const Network& network, const torch::Tensor& x) {
  const torch::NoGradGuard no_graph;
  return kernel::in_blocks(x, [&](const torch::Tensor& some) { return network->forward(some); });
}

}  // namespace cdt::nn
