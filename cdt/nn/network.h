/// Networks of any architecture: modules that also describe themselves.
///
/// A new architecture derives from NetworkImpl and adds a line to the table of architectures.h;
/// saved models, the program, pre-flight and sweeps then support it.
#pragma once

#include <cdt/nn/parameters.h>
#include <cdt/nn/parametrization.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <memory>
#include <string>
#include <vector>

namespace cdt::nn {

/// Floating-point operations per sample, matrix products and convolutions only.
struct Operations {
  double forward = 0;
  double step = 0;  ///< gradient step: forward, gradients of weights and of layer inputs
};

class NetworkImpl : public torch::nn::Module {
 public:
  /// [r, …] → [r, output_count()]
  virtual torch::Tensor forward(torch::Tensor x) = 0;

  /// Name in the table of architectures: "mlp".
  virtual std::string architecture() const = 0;
  /// Everything needed to recreate the network except its weights: a JSON object whose `type` is
  /// the architecture (docs/formats.md).
  virtual std::string record() const = 0;
  /// Shape of one sample: {79}, or {3, 32, 32}.
  virtual std::vector<int64_t> input_shape() const = 0;
  virtual int64_t output_count() const = 0;
  virtual Parametrization parametrization() const = 0;
  /// Short description for people: "79-500-500-1".
  virtual std::string describe() const = 0;
  virtual Operations operations_per_sample() const = 0;
  /// Tensors saved in a file, by name; they share storage with the module.
  virtual NamedTensors saved_tensors() const { return named_tensors(*this); }

  int64_t parameter_count() const;
  /// The common dtype of the parameters.
  torch::ScalarType dtype() const;
  torch::Device device() const;
};

/// A reference to a NetworkImpl, as Mlp is one to an MlpImpl; copies refer to the same network.
class Network {
 public:
  /// An empty reference.
  Network() = default;
  template <std::derived_from<NetworkImpl> Impl>
  Network(std::shared_ptr<Impl> impl)  // NOLINT(google-explicit-constructor): it is one
      : impl_(std::move(impl)) {}
  template <std::derived_from<NetworkImpl> Impl>
  Network(const torch::nn::ModuleHolder<Impl>& holder)  // NOLINT(google-explicit-constructor)
      : impl_(holder.ptr()) {}

  NetworkImpl* operator->() const { return impl_.get(); }
  NetworkImpl& operator*() const { return *impl_; }
  explicit operator bool() const { return impl_ != nullptr; }
  const std::shared_ptr<NetworkImpl>& ptr() const { return impl_; }

  /// The module if it is an Impl, otherwise null. `Mlp(network.as<MlpImpl>())`
  template <std::derived_from<NetworkImpl> Impl>
  std::shared_ptr<Impl> as() const {
    return std::dynamic_pointer_cast<Impl>(impl_);
  }

 private:
  std::shared_ptr<NetworkImpl> impl_;
};

/// Outputs [r, output_count()] for rows [r, …], without a graph, in blocks
/// (kernel/product/blocks.h).
torch::Tensor outputs_of(const Network& network, const torch::Tensor& x);

}  // namespace cdt::nn
