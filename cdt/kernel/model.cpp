#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/kernel/check/pending_checks.h>
#include <cdt/kernel/model.h>
#include <cdt/kernel/replay/plan_memory.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace cdt::kernel {

using torch::Tensor;

Model::Model(Forward forward, const std::vector<Tensor>& parameters)
    : forward_(std::move(forward)), plans_(std::make_shared<PlanMemory>()) {
  CDT_REQUIRE(forward_ != nullptr, "a model needs a forward function, this one is empty");
  std::unordered_set<const c10::TensorImpl*> seen;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i];
    CDT_REQUIRE(p.defined(), "parameter ", i, " is undefined");
    if (!p.requires_grad() || p.numel() == 0) continue;
    if (!seen.insert(p.unsafeGetTensorImpl()).second) continue;
    CDT_REQUIRE(p.is_leaf(), "parameter ", i,
                " is computed from other tensors; pass the leaves that training moves");
    CDT_REQUIRE(p.scalar_type() == torch::kFloat32 || p.scalar_type() == torch::kFloat64,
                "parameter ", i, " must be float32 or float64, got ", p.scalar_type());
    if (!parameters_.empty()) {
      CDT_REQUIRE(p.scalar_type() == dtype() && p.device() == device(), "parameter ", i, " is ",
                  p.scalar_type(), " on ", p.device(), ", the ones before it are ", dtype(), " on ",
                  device());
    }
    parameters_.push_back(p);
    parameter_count_ += p.numel();
  }
  CDT_REQUIRE(!parameters_.empty(), "a model needs at least one trainable parameter; of the ",
              parameters.size(), " given none has requires_grad");
  // In kernels, products, controllers and training alike, inputs are converted to the model's
  // dtype.
  forward_ = [forward = std::move(forward_), network = dtype()](const Tensor& x) {
    const bool other = x.defined() && x.is_floating_point() && x.scalar_type() != network;
    return forward(other ? x.to(network) : x);
  };
}

Tensor Model::forward(const Tensor& x) const {
  const Tensor outputs = forward_(x);
  CDT_REQUIRE(outputs.defined() && outputs.numel() > 0, "the model returned no outputs for inputs ",
              "of shape ", x.sizes(),
              outputs.defined() ? c10::str(": they have shape ", outputs.sizes()) : "",
              "; does a mask or a slice in it select nothing?");
  CDT_REQUIRE(!outputs.is_complex(), "the model's outputs are complex (", outputs.scalar_type(),
              "), and losses and kernels are of real numbers: return torch.view_as_real(outputs), "
              "the real and the imaginary part as outputs of their own");
  return outputs;
}

Tensor flatten(const Model& model, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> pieces;
  pieces.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& p = model.parameters()[i];
    pieces.push_back(tensors[i].defined()
                         ? tensors[i].reshape({-1})
                         : torch::zeros({p.numel()}, p.options().requires_grad(false)));
  }
  return torch::cat(pieces);
}

std::vector<Tensor> unflatten(const Model& model, const Tensor& vector) {
  std::vector<Tensor> tensors;
  int64_t offset = 0;
  for (const Tensor& p : model.parameters()) {
    tensors.push_back(vector.narrow(0, offset, p.numel()).view(p.sizes()));
    offset += p.numel();
  }
  return tensors;
}

void require_samples(const Tensor& x) {
  CDT_REQUIRE(x.defined() && x.dim() >= 1 && x.numel() > 0,
              "inputs must hold at least one sample along their first dimension");
}

int64_t version_of(const Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference() ? static_cast<int64_t>(tensor._version()) : 0;
}

namespace {

/// [r, n_L], not tested for finiteness.
Tensor outputs_of(const Model& model, const Tensor& x) {
  const int64_t version = version_of(x);
  const Tensor outputs = model.forward(x);
  CDT_REQUIRE(version_of(x) == version,
              "the forward function writes to its inputs (an in-place operator on x?); it must "
              "leave them as they are");
  CDT_REQUIRE(outputs.dim() == 0 ? x.size(0) == 1 : outputs.size(0) == x.size(0) || x.size(0) == 1,
              "the model must return one row per sample: ", x.size(0),
              " samples gave outputs of shape ", outputs.sizes());
  return outputs.reshape({x.size(0), -1});
}

void require_finite_outputs(const Tensor& outputs) {
  if (!torch::isfinite(outputs).all().item<bool>()) {
    throw NumericalError("the model's outputs are not finite on these inputs");
  }
}

/// Calls `look` if a sum indicates that some entry may not be finite; a sum of large entries does,
/// too.
template <class Look>
void look_later(const Tensor& values, PendingChecks& checks, const Look& look) {
  const Tensor kept = values.detach();
  checks.add({kept.sum(torch::kFloat64)}, [kept, look](const double* sum) {
    if (!std::isfinite(*sum)) look(kept);
  });
}

}  // namespace

Tensor evaluate(const Model& model, const Tensor& x) {
  require_samples(x);
  if (x.is_floating_point()) require_finite(x, "inputs");
  if (x.is_complex()) require_finite(torch::view_as_real(x.detach().resolve_conj()), "inputs");
  const Tensor outputs = outputs_of(model, x);
  require_finite_outputs(outputs);
  return outputs;
}

Tensor evaluate(const Model& model, const Tensor& x, PendingChecks& checks) {
  require_samples(x);
  if (x.is_floating_point()) {
    look_later(x, checks, [](const Tensor& inputs) { require_finite(inputs, "inputs"); });
  }
  const Tensor outputs = outputs_of(model, x);
  look_later(outputs, checks, require_finite_outputs);
  return outputs;
}

void require_trainable(const Model& model) {
  for (const Tensor& p : model.parameters()) {
    CDT_REQUIRE(p.requires_grad(), "a parameter of shape ", p.sizes(),
                " was frozen (requires_grad is off) after the model was taken with it; make the "
                "controller or optimizer of the model anew");
  }
}

void require_influence(bool influence) {
  CDT_REQUIRE(influence,
              "the outputs do not depend on any of the model's parameters; are they detached, or "
              "computed from others?");
}

void require_influence(const std::vector<Tensor>& gradients) {
  require_influence(std::any_of(gradients.begin(), gradients.end(),
                                [](const Tensor& gradient) { return gradient.defined(); }));
}

}  // namespace cdt::kernel
