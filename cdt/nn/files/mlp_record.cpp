// The MLP's entry in the table of architectures: from options, and from a file.
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/nn/files/record_fields.h>
#include <cdt/nn/mlp.h>

namespace cdt::nn {
namespace {

std::string weight_name(size_t layer) { return c10::str("layers.", layer, ".weight"); }
std::string bias_name(size_t layer) { return c10::str("layers.", layer, ".bias"); }

/// Compares widths in a record with a tensor of the file, before a network of that size is
/// allocated.
void require_tensor(const NamedTensors& tensors, const std::string& name, c10::IntArrayRef shape) {
  const auto it = tensors.find(name);
  CDT_REQUIRE(it != tensors.end(), "the tensor ", name, " is missing");
  require_floating(it->second, name);
  require_shape(it->second, shape, name);
  require_finite(it->second, name);
}

void require_tensors(const NamedTensors& tensors, const MlpOptions& options) {
  int64_t in = options.inputs;
  const size_t layers = options.hidden.size() + 1;
  for (size_t layer = 0; layer < layers; ++layer) {
    const bool last = layer + 1 == layers;
    const int64_t out = last ? options.outputs : options.hidden[layer] * options.width_factor;
    require_tensor(tensors, weight_name(layer), {out, in});
    if (options.bias) require_tensor(tensors, bias_name(layer), {out});
    in = out;
  }
  const torch::ScalarType dtype = tensors.at(weight_name(0)).scalar_type();
  for (const auto& [name, tensor] : tensors) {
    CDT_REQUIRE(tensor.scalar_type() == dtype, "tensors must have one dtype; ", name, " is ",
                tensor.scalar_type(), ", ", weight_name(0), " ", dtype);
  }
  CDT_REQUIRE(dtype == torch::kFloat32 || dtype == torch::kFloat64,
              "weights must be float32 or float64, got ", dtype);
  const size_t expected = layers * (options.bias ? 2 : 1);
  CDT_REQUIRE(tensors.size() == expected, "the architecture has ", expected, " tensors, the file ",
              tensors.size());
}

Network make_mlp(const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype) {
  CDT_REQUIRE(options.input_shape.size() == 1, "an mlp takes samples of one dimension, got shape ",
              c10::IntArrayRef(options.input_shape), "; flatten them");
  MlpOptions layers;
  layers.inputs = options.input_shape[0];
  layers.hidden = options.hidden;
  layers.outputs = options.outputs;
  layers.activation = options.activation;
  layers.parametrization = options.parametrization;
  layers.sigma_w = options.sigma_w;
  layers.sigma_b = options.sigma_b;
  layers.width_factor = options.width_factor;
  layers.bias = options.bias;
  return Mlp(layers, seed, dtype);
}

Network restore_mlp(const std::string& record, const NamedTensors& tensors) {
  const auto options = from_json_exactly<MlpOptions>(parse_json(record, "the architecture record"));
  require_tensors(tensors, options);
  Mlp model(options, /*seed=*/0, tensors.at(weight_name(0)).scalar_type());
  copy_tensors(tensors, model->saved_tensors());
  return model;
}

}  // namespace

void MlpOptions::fields(Fields& f) {
  std::string type = "mlp";
  f("type", type);
  units_field(f, "inputs", inputs);
  if (f.has("hidden"))
    f.each("hidden", hidden, [&](int64_t& width) { f.whole(width, 1, kMostUnits); });
  if (f.has("outputs")) units_field(f, "outputs", outputs);
  if (f.has("activation")) activation_field(f, activation);
  if (f.has("parametrization")) parametrization_field(f, parametrization);
  f("sigma_w", sigma_w);
  f("sigma_b", sigma_b);
  if (f.has("width_factor")) units_field(f, "width_factor", width_factor);
  f("bias", bias);
}

std::string MlpImpl::record() const { return to_json_value(options_).dump(); }

NamedTensors MlpImpl::saved_tensors() const {
  NamedTensors tensors;
  for (size_t layer = 0; layer < depth(); ++layer) {
    tensors[weight_name(layer)] = weights_[layer];
    if (options_.bias) tensors[bias_name(layer)] = biases_[layer];
  }
  return tensors;
}

Architecture mlp_architecture() { return {"mlp", make_mlp, restore_mlp}; }

}  // namespace cdt::nn
