#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/nn/conv_net.h>
#include <cdt/nn/files/picture_record.h>
#include <cdt/nn/files/record_fields.h>

#include <algorithm>

namespace cdt::nn {
namespace {

using torch::Tensor;

constexpr const char* kAlexNet = "alexnet";
constexpr const char* kCnn = "cnn";

/// Sizes of a layer, before it is allocated.
struct LayerShape {
  std::string name;
  std::vector<int64_t> weight;
  FanIn fan_in;
  double positions = 1;  ///< positions of its output
};

/// Size of the pictures after a stage.
struct Extent {
  int64_t channels, height, width;
};

Extent after(const Extent& in, const ConvStage& stage, int64_t channels) {
  const auto side = [&](int64_t size) {
    const int64_t padded = size + 2 * stage.padding;
    const int64_t out = padded < stage.kernel ? 0 : (padded - stage.kernel) / stage.stride + 1;
    if (stage.pool == 0) return out;
    return out < stage.pool ? 0 : (out - stage.pool) / stage.pool_stride + 1;
  };
  return {channels, side(in.height), side(in.width)};
}

std::vector<LayerShape> shapes_of(const ConvNetOptions& o) {
  require_picture_options(o);
  std::vector<LayerShape> shapes;
  Extent extent{o.input_shape[0], o.input_shape[1], o.input_shape[2]};
  int64_t base = o.input_shape[0], factor = 1;
  for (const ConvStage& stage : o.stages) {
    require_units(stage.channels, "the channels of " + stage.name);
    require_units(stage.channels * o.width_factor, "the channels of " + stage.name + ", widened,");
    const int64_t out = stage.channels * o.width_factor;
    ConvStage alone = stage;
    alone.pool = 0;
    const Extent before_pool = after(extent, alone, out);
    shapes.push_back({stage.name,
                      {out, extent.channels, stage.kernel, stage.kernel},
                      {base, stage.kernel * stage.kernel, factor},
                      static_cast<double>(before_pool.height * before_pool.width)});
    extent = after(extent, stage, out);
    CDT_REQUIRE(extent.height > 0 && extent.width > 0, "pictures of ", o.input_shape[1], " × ",
                o.input_shape[2], " are too small for the architecture ", o.architecture,
                ": nothing is left at ", stage.name);
    base = stage.channels;
    factor = o.width_factor;
  }
  if (o.grid > 0) extent.height = extent.width = o.grid;
  int64_t positions = extent.height * extent.width;
  const auto add_dense = [&](const std::string& name, int64_t units, int64_t widened) {
    const int64_t in = base * factor * positions;
    require_units(in, "the inputs of " + name);
    shapes.push_back({name, {widened, in}, {base, positions, factor}, 1});
    base = units;
    factor = o.width_factor;
    positions = 1;
  };
  for (const DenseStage& stage : o.hidden) {
    require_units(stage.units, "the units of " + stage.name);
    require_units(stage.units * o.width_factor, "the units of " + stage.name + ", widened,");
    add_dense(stage.name, stage.units, stage.units * o.width_factor);
  }
  add_dense(o.head, o.outputs, o.outputs);
  return shapes;
}

/// Shapes of the tensors in a file.
NamedShapes tensor_shapes(const std::vector<LayerShape>& layers) {
  NamedShapes shapes;
  for (const LayerShape& layer : layers) {
    shapes[layer.name + ".weight"] = layer.weight;
    shapes[layer.name + ".bias"] = {layer.weight[0]};
  }
  return shapes;
}

/// Record in a file. An AlexNet's layers are fixed; those of a cnn are given by its channels.
struct ConvNetRecord : PictureOptions {
  std::vector<int64_t> channels;

  void fields(Fields& f) {
    PictureOptions::fields(f);
    if (architecture != kCnn) return;
    f.each("channels", channels, [&](int64_t& each) { f.whole(each, 1, kMostUnits); });
  }
};

ConvNetOptions parse_conv_net(const std::string& text) {
  const auto record = from_json_exactly<ConvNetRecord>(parse_json(text, "the architecture record"));
  ConvNetOptions o =
      record.architecture == kCnn ? cnn_options({}, record.channels, 1) : alexnet_options({}, 1);
  static_cast<PictureOptions&>(o) = record;
  return o;
}

Network restore_conv_net(const std::string& record, const NamedTensors& tensors) {
  const ConvNetOptions options = parse_conv_net(record);
  const auto dtype = require_file_tensors(tensors, tensor_shapes(shapes_of(options)));
  ConvNet model(options, /*seed=*/0, dtype);
  copy_tensors(tensors, model->saved_tensors());
  return model;
}

Network make_conv_net(ConvNetOptions layers, const NetworkOptions& options, uint64_t seed,
                      torch::ScalarType dtype) {
  take_options(options, layers);
  return ConvNet(layers, seed, dtype);
}

/// Average pooling to a grid × grid. On a GPU the gradient of LibTorch's operator is not
/// deterministic if cells share pixels; if each cell is one pixel, expanded copies have a
/// deterministic sum.
Tensor means_over_grid(const Tensor& x, int64_t grid) {
  const int64_t h = x.size(2), w = x.size(3);
  if (h == grid && w == grid) return x;
  if (grid % h != 0 || grid % w != 0) return torch::adaptive_avg_pool2d(x, {grid, grid});
  return x.unsqueeze(3)
      .unsqueeze(5)
      .expand({-1, -1, -1, grid / h, -1, grid / w})
      .reshape({x.size(0), x.size(1), grid, grid});
}

}  // namespace

ConvNetOptions alexnet_options(std::vector<int64_t> input_shape, int64_t outputs) {
  ConvNetOptions o;
  o.architecture = kAlexNet;
  o.input_shape = std::move(input_shape);
  o.stages = {{"features.0", 64, 11, 4, 2, 3, 2},
              {"features.3", 192, 5, 1, 2, 3, 2},
              {"features.6", 384, 3, 1, 1, 0, 0},
              {"features.8", 256, 3, 1, 1, 0, 0},
              {"features.10", 256, 3, 1, 1, 3, 2}};
  o.grid = 6;
  o.hidden = {{"classifier.1", 4096}, {"classifier.4", 4096}};
  o.head = "classifier.6";
  o.outputs = outputs;
  return o;
}

ConvNetOptions cnn_options(std::vector<int64_t> input_shape, const std::vector<int64_t>& channels,
                           int64_t outputs) {
  ConvNetOptions o;
  o.architecture = kCnn;
  o.input_shape = std::move(input_shape);
  for (size_t i = 0; i < channels.size(); ++i) {
    o.stages.push_back({c10::str("features.", 3 * i), channels[i], 3, 1, 1, 2, 2});
  }
  o.outputs = outputs;
  return o;
}

ConvNetImpl::ConvNetImpl(ConvNetOptions options, uint64_t seed, torch::ScalarType dtype)
    : options_(std::move(options)) {
  const std::vector<LayerShape> shapes = shapes_of(options_);
  require_room(tensor_shapes(shapes), dtype, c10::str("the network ", describe()));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (const LayerShape& shape : shapes) {
    Layer layer;
    layer.name = shape.name;
    layer.positions = shape.positions;
    layer.scaling =
        layer_scaling(options_.parametrization, shape.fan_in, options_.sigma_w, options_.sigma_b);
    layer.weight = draw_normal(shape.weight, layer.scaling.weight_std, generator, dtype);
    layer.bias = draw_normal({shape.weight[0]}, layer.scaling.bias_std, generator, dtype);
    layers_.push_back(std::move(layer));
  }
  // θ begins with the last layer. Parameter names must not contain dots.
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    std::string name = layer->name;
    std::replace(name.begin(), name.end(), '.', '_');
    register_parameter(name + "_weight", layer->weight);
    register_parameter(name + "_bias", layer->bias);
  }
}

Tensor ConvNetImpl::forward(Tensor x) {
  require_pictures(x, options_);
  const auto weight = [](const Layer& layer) {
    return nn::scaled(layer.weight, layer.scaling.weight_factor);
  };
  const auto bias = [](const Layer& layer) {
    return nn::scaled(layer.bias, layer.scaling.bias_factor);
  };
  size_t next = 0;
  for (const ConvStage& stage : options_.stages) {
    const Layer& layer = layers_[next++];
    x = torch::conv2d(x, weight(layer), bias(layer), stage.stride, stage.padding);
    x = activate(options_.activation, x);
    if (stage.pool > 0) x = torch::max_pool2d(x, stage.pool, stage.pool_stride);
  }
  if (options_.grid > 0) x = means_over_grid(x, options_.grid);
  x = x.flatten(1);
  for (bool first = true; next < layers_.size(); ++next, first = false) {
    if (!first) x = activate(options_.activation, x);
    x = torch::linear(x, weight(layers_[next]), bias(layers_[next]));
  }
  return x;
}

std::string ConvNetImpl::record() const {
  ConvNetRecord record{options_, {}};
  for (const ConvStage& stage : options_.stages) record.channels.push_back(stage.channels);
  return to_json_value(record).dump();
}

std::string ConvNetImpl::describe() const {
  return c10::str(options_.architecture, " ", c10::Join("×", options_.input_shape), "-",
                  options_.outputs);
}

bool ConvNetImpl::scaled() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const Layer& layer) {
    return layer.scaling.weight_factor != 1 || layer.scaling.bias_factor != 1;
  });
}

std::array<int64_t, 3> ConvNetImpl::extent_behind_stages() const {
  Extent extent{options_.input_shape[0], options_.input_shape[1], options_.input_shape[2]};
  for (const ConvStage& stage : options_.stages) {
    extent = after(extent, stage, stage.channels * options_.width_factor);
  }
  return {extent.channels, extent.height, extent.width};
}

Operations ConvNetImpl::operations_per_sample() const {
  Operations count;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const double product =
        2 * static_cast<double>(layers_[i].weight.numel()) * layers_[i].positions;
    count.forward += product;
    count.step += (i == 0 ? 2 : 3) * product;  // without the gradient of the inputs
  }
  return count;
}

NamedTensors ConvNetImpl::saved_tensors() const {
  NamedTensors tensors;
  for (const Layer& layer : layers_) {
    tensors[layer.name + ".weight"] = layer.weight;
    tensors[layer.name + ".bias"] = layer.bias;
  }
  return tensors;
}

NamedTensors ConvNetImpl::acting_tensors() const {
  NamedTensors tensors;
  for (const Layer& layer : layers_) {
    tensors[layer.name + ".weight"] = nn::scaled(layer.weight, layer.scaling.weight_factor);
    tensors[layer.name + ".bias"] = nn::scaled(layer.bias, layer.scaling.bias_factor);
  }
  return tensors;
}

Architecture alexnet_architecture() {
  return {kAlexNet,
          [](const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype) {
            CDT_REQUIRE(options.hidden.empty(),
                        "the layers of an alexnet are given; hidden widths are for others");
            return make_conv_net(alexnet_options(options.input_shape, options.outputs), options,
                                 seed, dtype);
          },
          restore_conv_net};
}

Architecture cnn_architecture() {
  return {kCnn,
          [](const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype) {
            const std::vector<int64_t> usual{32, 64};
            return make_conv_net(
                cnn_options(options.input_shape, options.hidden.empty() ? usual : options.hidden,
                            options.outputs),
                options, seed, dtype);
          },
          restore_conv_net};
}

}  // namespace cdt::nn
