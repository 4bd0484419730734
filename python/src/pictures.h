/// Pictures for a trained model, and descriptions from which Python rebuilds picture networks.
#pragma once

#include "model.h"
// Python headers come first, as they require

#include <cdt/data/preprocess.h>
#include <cdt/data/table.h>
#include <cdt/nn/network.h>

#pragma GCC visibility push(hidden)
namespace cdt::python {

/// Pictures of this shape [channels, height, width] from a folder, a single picture file, or an IDX
/// file.
std::shared_ptr<data::Table> picture_table(const std::string& path,
                                           const std::vector<int64_t>& shape);
/// x [r, channels, height, width] in [0, 1], float32.
std::shared_ptr<data::Table> tensor_table(const torch::Tensor& x);
/// The names of the pictures; and all pictures in [0, 1], float32.
std::vector<std::string> picture_names(const data::Table& table);
torch::Tensor all_pictures(const data::Table& table);

/// Shape, scales of channels (offset and scale) and whether rows are flat; None for a table.
pybind11::object picture_features(const data::Preprocess& preprocess);
/// Architecture, activation, layer sizes, and the effective tensors, multiplied by the factors of
/// the parametrisation, in this dtype.
/// @throws InvalidArgument if the architecture has no such description.
pybind11::dict describe_network(const nn::Network& network, torch::ScalarType dtype);

}  // namespace cdt::python
#pragma GCC visibility pop
