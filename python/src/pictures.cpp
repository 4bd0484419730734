#include "pictures.h"
// Python headers come first, as they require

#include <cdt/core/error.h>
#include <cdt/nn/conv_net.h>
#include <cdt/nn/resnet.h>
#include <cdt/study/parts/pictures.h>

#include <numeric>

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;

namespace {

py::dict as_they_act(const nn::NamedTensors& tensors, torch::ScalarType dtype) {
  py::dict found;
  for (const auto& [name, tensor] : tensors) {
    const Tensor plain = tensor.detach();
    found[name.c_str()] = (plain.is_floating_point() ? plain.to(dtype) : plain).clone();
  }
  return found;
}

py::dict layers_of(const nn::ConvNetOptions& options) {
  py::list stages;
  for (const nn::ConvStage& stage : options.stages) {
    stages.append(
        py::make_tuple(stage.name, stage.stride, stage.padding, stage.pool, stage.pool_stride));
  }
  py::list dense;
  for (const nn::DenseStage& stage : options.hidden) dense.append(stage.name);
  dense.append(options.head);
  py::dict layers;
  layers["stages"] = stages;
  layers["grid"] = options.grid;
  layers["dense"] = dense;
  return layers;
}

}  // namespace

std::shared_ptr<data::Table> picture_table(const std::string& path,
                                           const std::vector<int64_t>& shape) {
  const py::gil_scoped_release unlocked;
  return std::make_shared<data::Table>(study::read_new_pictures(path, shape));
}

std::shared_ptr<data::Table> tensor_table(const Tensor& x) {
  auto table = std::make_shared<data::Table>();
  table->source = "the pictures";
  table->pictures = std::make_shared<data::TensorPictures>(x);
  table->lines.resize(static_cast<size_t>(x.size(0)));
  std::iota(table->lines.begin(), table->lines.end(), 1);
  return table;
}

std::vector<std::string> picture_names(const data::Table& table) {
  const data::Column& names = table.at(study::kPictureColumn);
  std::vector<std::string> found;
  for (int64_t row = 0; row < table.rows(); ++row) {
    found.push_back(
        names.type == data::ColumnType::kText
            ? names.categories.at(static_cast<size_t>(names.codes.at(static_cast<size_t>(row))))
            : c10::str(names.numbers[static_cast<size_t>(row)]));
  }
  return found;
}

Tensor all_pictures(const data::Table& table) {
  const py::gil_scoped_release unlocked;
  std::vector<int64_t> rows(static_cast<size_t>(table.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return table.pictures->load(rows);
}

py::object picture_features(const data::Preprocess& preprocess) {
  if (!preprocess.pictures) return py::none();
  py::list offsets, scales;
  for (const data::Scale& each : preprocess.pictures->scales) {
    offsets.append(each.offset);
    scales.append(each.scale);
  }
  py::dict found;
  found["shape"] = preprocess.pictures->shape;
  found["offsets"] = offsets;
  found["scales"] = scales;
  found["flat"] = preprocess.pictures->flat;
  return found;
}

py::dict describe_network(const nn::Network& network, torch::ScalarType dtype) {
  py::dict found;
  found["architecture"] = network->architecture();
  if (const auto conv = network.as<nn::ConvNetImpl>()) {
    found["activation"] = nn::to_string(conv->options().activation);
    found["layers"] = layers_of(conv->options());
    found["tensors"] = as_they_act(conv->acting_tensors(), dtype);
    return found;
  }
  const auto residual = network.as<nn::ResNet18Impl>();
  CDT_REQUIRE(residual, "a network of the architecture ", network->architecture(),
              " has no torch.nn.Module here");
  found["activation"] = nn::to_string(residual->options().activation);
  found["layers"] = py::none();
  found["tensors"] = as_they_act(residual->acting_tensors(), dtype);
  return found;
}

}  // namespace cdt::python
