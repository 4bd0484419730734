/// Models on disk: a safetensors file whose metadata holds the architecture as a JSON record.
///
/// Metadata key `architecture`: {"type": "mlp", "inputs": 79, "hidden": [500, 500], "outputs": 1,
/// "activation": "relu", "parametrization": "standard", "sigma_w": 1, "sigma_b": 0.1,
/// "width_factor": 1, "bias": true}; only type and inputs have no default. Tensors:
/// `layers.0.weight` [out, in], `layers.0.bias` [out], and so on, as PyTorch stores them. Other
/// architectures have records of their own.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/safetensors.h>
#include <cdt/nn/architectures.h>

#include <filesystem>

namespace cdt::nn {

/// The contents of such a file.
SafeTensors to_safetensors(const Network& network);
/// @throws InvalidArgument if the file cannot be written.
void save_model(const std::filesystem::path& path, const Network& network);

/// @throws InvalidArgument if the file is not a safetensors file, has no architecture record or one
///   of an unknown type, a tensor is missing or left over, has another shape or dtype than the
///   record says, or has non-finite weights.
Network load_model(const std::filesystem::path& path, const Architectures& table = architectures());
/// The same from the contents of such a file; messages call it `source`.
Network parse_model(const SafeTensors& content, const std::string& source,
                    const Architectures& table = architectures());

}  // namespace cdt::nn
