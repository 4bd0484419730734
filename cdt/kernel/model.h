/// A network as the kernel sees it: a forward function and the trainable parameters.
#pragma once

#include <cdt/core/error.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <concepts>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace cdt::kernel {

class PendingChecks;
class PlanMemory;

namespace detail {
/// A module held by pointer (torch::nn::ModuleHolder, std::shared_ptr) that maps a tensor to a
/// tensor.
template <class M>
concept ModulePointer = requires(M& m, torch::Tensor x) {
  { m->forward(x) } -> std::convertible_to<torch::Tensor>;
  { m->parameters() } -> std::convertible_to<std::vector<torch::Tensor>>;
};
template <class M>
concept ModuleObject = requires(M& m, torch::Tensor x) {
  { m.forward(x) } -> std::convertible_to<torch::Tensor>;
  { m.parameters() } -> std::convertible_to<std::vector<torch::Tensor>>;
};
}  // namespace detail

/// A differentiable function from inputs [r, ...] to outputs [r, ...] and its trainable parameters.
///
/// Takes any callable; a torch::nn module converts implicitly, so `empirical_ntk(net, x)` works for
/// a `torch::nn::Sequential net`. Samples lie along the first dimension and must not influence each
/// other: put batch norm and dropout in eval mode. Frozen (`requires_grad` off), empty and repeated
/// parameters are dropped; the others, in the given order, are θ.
class Model {
 public:
  using Forward = std::function<torch::Tensor(const torch::Tensor&)>;

  /// @throws InvalidArgument if `forward` is empty, no parameter is trainable, a parameter is
  ///   undefined, not a leaf or not float32 or float64, or parameters lie on different devices or
  ///   have different dtypes.
  Model(Forward forward, const std::vector<torch::Tensor>& parameters);

  /// A module in a holder or shared pointer, which the model keeps alive.
  template <detail::ModulePointer M>
  Model(M module)  // NOLINT(google-explicit-constructor): a module *is* a model
      : Model([module](const torch::Tensor& x) mutable { return module->forward(x); },
              module->parameters()) {}

  /// A module object, which must outlive the model.
  template <detail::ModuleObject M>
  requires(!std::same_as<std::remove_cv_t<M>, Model>)
      Model(M& module)  // NOLINT(google-explicit-constructor)
      : Model([&module](const torch::Tensor& x) { return module.forward(x); },
              module.parameters()) {}

  /// @throws InvalidArgument if the outputs are complex or missing; otherwise whatever the function
  ///   throws.
  torch::Tensor forward(const torch::Tensor& x) const;
  const std::vector<torch::Tensor>& parameters() const { return parameters_; }
  /// P, the length of θ.
  int64_t parameter_count() const { return parameter_count_; }
  torch::ScalarType dtype() const { return parameters_.front().scalar_type(); }
  torch::Device device() const { return parameters_.front().device(); }
  /// Cache of how kernels of this model were computed; shared by copies.
  PlanMemory& plans() const { return *plans_; }
  /// The same model with an empty cache of plans.
  Model without_plans() const { return {forward_, parameters_}; }

 private:
  Forward forward_;
  std::vector<torch::Tensor> parameters_;
  int64_t parameter_count_ = 0;
  std::shared_ptr<PlanMemory> plans_;
};

/// Concatenates tensors shaped like the parameters, in their order, to one vector [P]. Undefined
/// tensors count as zeros.
torch::Tensor flatten(const Model& model, const std::vector<torch::Tensor>& tensors);
/// The inverse: splits a vector [P] into views shaped like the parameters.
std::vector<torch::Tensor> unflatten(const Model& model, const torch::Tensor& vector);

/// Version counter of a tensor, which in-place writes increment; 0 if it has none.
int64_t version_of(const torch::Tensor& tensor);

/// @throws InvalidArgument if x holds no sample.
void require_samples(const torch::Tensor& x);

/// The outputs of `model` on `x` as [r, n_L], with their graph if autograd records.
/// @throws InvalidArgument if x is empty or has NaN or infinite entries, the outputs do not have r
///   rows, or the forward function writes to its inputs.
/// @throws NumericalError if an output is not finite.
torch::Tensor evaluate(const Model& model, const torch::Tensor& x);
/// The same, but inputs and outputs are tested for finiteness when `checks` are settled.
torch::Tensor evaluate(const Model& model, const torch::Tensor& x, PendingChecks& checks);

/// @throws InvalidArgument if a parameter has been frozen since the model was constructed.
void require_trainable(const Model& model);

/// @throws InvalidArgument if no parameter influences the outputs.
void require_influence(bool influence);
/// The same, given gradients of the outputs: throws if none is defined.
void require_influence(const std::vector<torch::Tensor>& gradients);

}  // namespace cdt::kernel
