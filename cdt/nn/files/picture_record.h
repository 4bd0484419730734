/// Validation of options of networks for pictures, and their record in files. Internal to this
/// project.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/nn/picture_network.h>

namespace cdt::nn {

/// @throws InvalidArgument unless 1 ≤ value ≤ 2³¹ − 1; larger layers are a mistake.
void require_units(int64_t value, std::string_view name);

/// @throws InvalidArgument if the shape is not that of a picture, or a number is out of its range.
void require_picture_options(const PictureOptions& options);

/// @throws InvalidArgument if x does not have the shape [r, c, h, w] of the network's pictures.
void require_pictures(const torch::Tensor& x, const PictureOptions& options);

/// Copies the NetworkOptions that apply to any network for pictures.
/// @throws InvalidArgument if they ask for layers without biases.
void take_options(const NetworkOptions& options, PictureOptions& network);

/// Shapes of the tensors of a file, by name.
using NamedShapes = std::map<std::string, std::vector<int64_t>>;

/// The dtype of the tensors of a file, which must have the expected shapes and one dtype, float32
/// or float64; counters (`num_batches_tracked`) are int64.
/// @throws InvalidArgument otherwise, or if a tensor is missing, left over, or not finite.
torch::ScalarType require_file_tensors(const NamedTensors& tensors, const NamedShapes& expected);
/// Whether a tensor is a counter, by its name.
bool is_counter(std::string_view name);

/// @throws InvalidArgument if tensors of these shapes do not fit into memory.
void require_room(const NamedShapes& shapes, torch::ScalarType dtype, const std::string& what);

}  // namespace cdt::nn
