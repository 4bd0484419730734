/// Pictures for a trained model, and networks for pictures as Python can build them again.
#pragma once

#include "model.h"
// Python first, as its headers want it

#include <cdt/data/preprocess.h>
#include <cdt/data/table.h>
#include <cdt/nn/network.h>

#pragma GCC visibility push(hidden)
namespace cdt::python {

/// Pictures of this shape [channels, height, width] from a folder, a file of one, or an IDX file.
std::shared_ptr<data::Table> picture_table(const std::string& path,
                                           const std::vector<int64_t>& shape);
/// x [r, channels, height, width] in [0, 1], float32.
std::shared_ptr<data::Table> tensor_table(const torch::Tensor& x);
/// The name of each picture; [0, 1], float32, all of them.
std::vector<std::string> picture_names(const data::Table& table);
torch::Tensor all_pictures(const data::Table& table);

/// Shape, scales of channels (offset and scale) and whether rows are flat; None of a table.
pybind11::object picture_features(const data::Preprocess& preprocess);
/// Architecture, activation, its layers in numbers, and its tensors as they act: times the factors
/// of their parametrisation, in this dtype.
/// @throws InvalidArgument if there is no such description of the architecture.
pybind11::dict describe_network(const nn::Network& network, torch::ScalarType dtype);

}  // namespace cdt::python
#pragma GCC visibility pop
