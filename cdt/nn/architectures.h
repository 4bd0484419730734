/// The architectures that networks are made from and files name: an open table.
///
/// A new one is a file with its module and its entry, and a line in architectures(). A program's
/// own goes into a table of the program's:
///
///     auto table = cdt::nn::architectures();
///     table.push_back({"mine", make_mine, restore_mine});
///     auto network = cdt::nn::load_model("mine.safetensors", table);
#pragma once

#include <cdt/core/error.h>
#include <cdt/nn/activation.h>
#include <cdt/nn/network.h>

#include <functional>

namespace cdt::nn {

/// A network in words that architectures share. What one has no use for must stay as it is here.
struct NetworkOptions {
  std::string architecture = "mlp";
  std::vector<int64_t> input_shape{1};  ///< of one sample
  int64_t outputs = 1;
  std::vector<int64_t> hidden;  ///< base widths of the layers between
  Activation activation = Activation::kRelu;
  Parametrization parametrization = Parametrization::kStandard;
  double sigma_w = 1.0;
  double sigma_b = 0.1;      ///< biases are drawn from N(0, σ_b²)
  int64_t width_factor = 1;  ///< s; never on the input layer
  bool bias = true;
};

struct Architecture {
  std::string name;  ///< as options and files spell it
  /// Draws the parameters; the same seed gives the same network on every device.
  /// @throws InvalidArgument if an option is out of its range, or not one of this architecture.
  std::function<Network(const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype)>
      make;
  /// The network of a file: its record (NetworkImpl::record) and its tensors.
  /// @throws InvalidArgument if the record or a tensor is not as expected. Sizes in a record are
  ///   compared with the tensors before anything of that size is made.
  std::function<Network(const std::string& record, const NamedTensors& tensors)> restore;
};

using Architectures = std::vector<Architecture>;

/// Those of the library: mlp, alexnet, cnn, resnet18.
Architectures architectures();

/// @throws InvalidArgument if the name is unknown; the message lists the known ones.
const Architecture& find_architecture(const Architectures& table, std::string_view name);

/// @throws InvalidArgument if the architecture is unknown or an option wrong.
Network make_network(const NetworkOptions& options, uint64_t seed,
                     torch::ScalarType dtype = torch::kFloat32,
                     const Architectures& table = architectures());

}  // namespace cdt::nn
