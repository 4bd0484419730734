#include <cdt/core/error.h>
#include <cdt/nn/architectures.h>
#include <cdt/nn/conv_net.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/resnet.h>

namespace cdt::nn {

Architectures architectures() {
  return {
      mlp_architecture(),
      alexnet_architecture(),
      cnn_architecture(),
      resnet18_architecture(),
  };
}

const Architecture& find_architecture(const Architectures& table, std::string_view name) {
  std::string known;
  for (const Architecture& architecture : table) {
    if (architecture.name == name) return architecture;
    known += c10::str(known.empty() ? "" : " or ", architecture.name);
  }
  throw InvalidArgument(c10::str("the architecture must be ", known, ", got '", name, "'"));
}

Network make_network(const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype,
                     const Architectures& table) {
  return find_architecture(table, options.architecture).make(options, seed, dtype);
}

}  // namespace cdt::nn
