/// Table of network architectures, from which networks are made and which files name.
///
/// To add one, write a file with its module and its entry, and add a line to architectures(). A
/// program adds its own to a copy:
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

/// Options that architectures share. An option that an architecture does not use must keep its
/// default.
struct NetworkOptions {
  std::string architecture = "mlp";
  std::vector<int64_t> input_shape{1};  ///< shape of one sample
  int64_t outputs = 1;
  std::vector<int64_t> hidden;  ///< base widths of the hidden layers
  Activation activation = Activation::kRelu;
  Parametrization parametrization = Parametrization::kStandard;
  double sigma_w = 1.0;
  double sigma_b = 0.1;      ///< biases are drawn from N(0, σ_b²)
  int64_t width_factor = 1;  ///< s; never on the input layer
  bool bias = true;
};

struct Architecture {
  std::string name;  ///< as in options and files
  /// Creates a network and draws its parameters; the same seed gives the same network on every
  /// device.
  /// @throws InvalidArgument if an option is out of its range or does not apply to this
  ///   architecture.
  std::function<Network(const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype)>
      make;
  /// Restores a network from a file's record (NetworkImpl::record) and tensors.
  /// @throws InvalidArgument if the record or a tensor is not as expected. Sizes in a record are
  ///   compared with the tensors before anything of that size is allocated.
  std::function<Network(const std::string& record, const NamedTensors& tensors)> restore;
};

using Architectures = std::vector<Architecture>;

/// Built-in architectures: mlp, alexnet, cnn, resnet18.
Architectures architectures();

/// @throws InvalidArgument if the name is unknown; the message lists the known names.
const Architecture& find_architecture(const Architectures& table, std::string_view name);

/// @throws InvalidArgument if the architecture is unknown or an option invalid.
Network make_network(const NetworkOptions& options, uint64_t seed,
                     torch::ScalarType dtype = torch::kFloat32,
                     const Architectures& table = architectures());

}  // namespace cdt::nn
