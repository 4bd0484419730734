// The MLP as an entry of the table of architectures: from options, and from a file.
#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/nn/mlp.h>

#include <limits>

namespace cdt::nn {
namespace {

using Json = nlohmann::ordered_json;

std::string weight_name(size_t layer) { return c10::str("layers.", layer, ".weight"); }
std::string bias_name(size_t layer) { return c10::str("layers.", layer, ".bias"); }

Json to_json(const MlpOptions& options) {
  return {{"type", "mlp"},
          {"inputs", options.inputs},
          {"hidden", options.hidden},
          {"outputs", options.outputs},
          {"activation", to_string(options.activation)},
          {"parametrization", to_string(options.parametrization)},
          {"sigma_w", options.sigma_w},
          {"sigma_b", options.sigma_b},
          {"width_factor", options.width_factor},
          {"bias", options.bias}};
}

/// A misspelt key would otherwise stand for its default, unseen.
void require_known_keys(const JsonValue& record) {
  const Json known = to_json({});
  std::string names;
  for (const auto& [name, unused] : known.items()) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, unused] : record.members()) {
    CDT_REQUIRE(known.contains(name), record.where(), " has no '", name, "'; it may have ", names);
  }
}

MlpOptions parse_mlp(const std::string& text) {
  const JsonValue record = parse_json(text, "the architecture record");
  require_known_keys(record);
  const auto width = [](const JsonValue& value) {
    return value.whole(1, std::numeric_limits<int32_t>::max());
  };
  const auto width_or = [&](const JsonValue& value, int64_t otherwise) {
    return value.exists() ? width(value) : otherwise;
  };
  MlpOptions options;
  options.inputs = width(record["inputs"]);
  if (const JsonValue hidden = record["hidden"]; hidden.exists()) {
    options.hidden.clear();
    for (const JsonValue& each : hidden.list()) options.hidden.push_back(width(each));
  }
  options.outputs = width_or(record["outputs"], options.outputs);
  if (const JsonValue name = record["activation"]; name.exists()) {
    options.activation = name.name(parse_activation);
  }
  if (const JsonValue name = record["parametrization"]; name.exists()) {
    options.parametrization = name.name(parse_parametrization);
  }
  options.sigma_w = record["sigma_w"].number_or(options.sigma_w);
  options.sigma_b = record["sigma_b"].number_or(options.sigma_b);
  options.width_factor = width_or(record["width_factor"], options.width_factor);
  options.bias = record["bias"].flag_or(options.bias);
  return options;
}

/// Widths from a record, checked against a tensor of the file before a network of that size is
/// made.
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
              "weights must be float32 or float64, not ", dtype);
  const size_t expected = layers * (options.bias ? 2 : 1);
  CDT_REQUIRE(tensors.size() == expected, "the architecture has ", expected, " tensors, the file ",
              tensors.size());
}

Network make_mlp(const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype) {
  CDT_REQUIRE(options.input_shape.size() == 1,
              "an mlp takes samples of one dimension, not of shape ",
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
  const MlpOptions options = parse_mlp(record);
  require_tensors(tensors, options);
  Mlp model(options, /*seed=*/0, tensors.at(weight_name(0)).scalar_type());
  copy_tensors(tensors, model->saved_tensors());
  return model;
}

}  // namespace

std::string MlpImpl::record() const { return to_json(options_).dump(); }

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
