#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/nn/saved_model.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace cdt::nn {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kArchitecture = "architecture";

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
void require_known_keys(const Json& json) {
  const Json known = to_json({});
  std::string names;
  for (const auto& [name, unused] : known.items()) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, unused] : json.items()) {
    CDT_REQUIRE(known.contains(name), "the architecture record has no '", name, "'; it may have ",
                names);
  }
}

int64_t whole(const Json& value, std::string_view name) {
  CDT_REQUIRE(
      value.is_number_integer() && value >= 1 && value <= std::numeric_limits<int32_t>::max(),
      "the architecture record's ", name, " must be a whole number from 1 to 2147483647, not ",
      value.dump());
  return value;
}

MlpOptions parse_architecture(const std::string& text) {
  const Json json = Json::parse(text);
  CDT_REQUIRE(json.is_object(), "the architecture record must be a JSON object, not ",
              json.type_name());
  for (const char* name : {"type", "inputs"}) {
    CDT_REQUIRE(json.contains(name), "the architecture record lacks '", name, "'");
  }
  CDT_REQUIRE(json["type"] == "mlp", "the architecture record's type must be mlp, not ",
              json["type"].dump());
  require_known_keys(json);
  const MlpOptions defaults;
  MlpOptions options;
  options.inputs = whole(json["inputs"], "inputs");
  const Json hidden = json.value("hidden", Json(defaults.hidden));
  CDT_REQUIRE(hidden.is_array(), "the architecture record's hidden must be a list, not ",
              hidden.dump());
  options.hidden.clear();
  for (const Json& width : hidden) {
    options.hidden.push_back(whole(width, "hidden widths"));
  }
  options.outputs = whole(json.value("outputs", Json(defaults.outputs)), "outputs");
  options.activation = parse_activation(json.value("activation", to_string(defaults.activation)));
  options.parametrization =
      parse_parametrization(json.value("parametrization", to_string(defaults.parametrization)));
  options.sigma_w = json.value("sigma_w", defaults.sigma_w);
  options.sigma_b = json.value("sigma_b", defaults.sigma_b);
  options.width_factor =
      whole(json.value("width_factor", Json(defaults.width_factor)), "width_factor");
  options.bias = json.value("bias", defaults.bias);
  return options;
}

/// Widths from a record, checked against a tensor of the file before a network of that size is
/// made.
void require_tensor(const SafeTensors& file, const std::string& name, c10::IntArrayRef shape) {
  const auto it = file.tensors.find(name);
  CDT_REQUIRE(it != file.tensors.end(), "the tensor ", name, " is missing");
  require_floating(it->second, name);
  require_shape(it->second, shape, name);
  require_finite(it->second, name);
}

void require_tensors(const SafeTensors& file, const MlpOptions& options) {
  int64_t in = options.inputs;
  const size_t layers = options.hidden.size() + 1;
  for (size_t layer = 0; layer < layers; ++layer) {
    const bool last = layer + 1 == layers;
    const int64_t out = last ? options.outputs : options.hidden[layer] * options.width_factor;
    require_tensor(file, weight_name(layer), {out, in});
    if (options.bias) require_tensor(file, bias_name(layer), {out});
    in = out;
  }
  const torch::ScalarType dtype = file.tensors.at(weight_name(0)).scalar_type();
  for (const auto& [name, tensor] : file.tensors) {
    CDT_REQUIRE(tensor.scalar_type() == dtype, "tensors must have one dtype; ", name, " is ",
                tensor.scalar_type(), ", ", weight_name(0), " ", dtype);
  }
  const size_t expected = layers * (options.bias ? 2 : 1);
  CDT_REQUIRE(file.tensors.size() == expected, "the architecture has ", expected,
              " tensors, the file ", file.tensors.size());
}

}  // namespace

void save_model(const std::filesystem::path& path, const Mlp& model) {
  SafeTensors file;
  file.metadata[kArchitecture] = to_json(model->options()).dump();
  for (size_t layer = 0; layer < model->depth(); ++layer) {
    file.tensors[weight_name(layer)] = model->weight(layer).detach();
    if (model->options().bias) file.tensors[bias_name(layer)] = model->bias(layer).detach();
  }
  save_safetensors(path, file);
}

Mlp load_model(const std::filesystem::path& path) {
  const SafeTensors file = load_safetensors(path);
  const auto record = file.metadata.find(kArchitecture);
  CDT_REQUIRE(record != file.metadata.end(), path.string(),
              ": expected a model with its architecture in the metadata, found none");
  try {
    const MlpOptions options = parse_architecture(record->second);
    require_tensors(file, options);
    const torch::ScalarType dtype = file.tensors.at(weight_name(0)).scalar_type();
    CDT_REQUIRE(dtype == torch::kFloat32 || dtype == torch::kFloat64,
                "weights must be float32 or float64, not ", dtype);
    Mlp model(options, /*seed=*/0, dtype);
    const torch::NoGradGuard no_grad;
    for (size_t layer = 0; layer < model->depth(); ++layer) {
      model->weight(layer).copy_(file.tensors.at(weight_name(layer)));
      if (options.bias) model->bias(layer).copy_(file.tensors.at(bias_name(layer)));
    }
    return model;
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(
        c10::str(path.string(), ": the architecture record is not as expected: ", error.what()));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(c10::str(path.string(), ": ", error.what()));
  }
}

}  // namespace cdt::nn
