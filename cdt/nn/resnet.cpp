#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/nn/files/picture_record.h>
#include <cdt/nn/resnet.h>

#include <algorithm>

namespace cdt::nn {
namespace {

using torch::Tensor;

constexpr const char* kResNet18 = "resnet18";
constexpr double kNormEpsilon = 1e-5;
const std::vector<int64_t> kStageWidths{64, 128, 256, 512};
constexpr int64_t kBlocksOfAStage = 2;

/// Sizes of a convolution without bias and its batch norm.
struct UnitShape {
  std::string conv, norm;
  int64_t in = 1, out = 1;  ///< base widths
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t padding = 1;
  int64_t height = 1, width = 1;  ///< size of its output
  bool first = false;             ///< its inputs are pictures, which are not widened
};

int64_t after_window(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
  return (size + 2 * padding - kernel) / stride + 1;
}

/// In the order of the forward pass: the units of a block, then its shortcut.
std::vector<UnitShape> resnet_units(const PictureOptions& o) {
  require_picture_options(o);
  require_units(kStageWidths.back() * o.width_factor, "the channels of the last stage, widened,");
  std::vector<UnitShape> units;
  const auto add = [&](const std::string& conv, const std::string& norm, int64_t in, int64_t out,
                       int64_t kernel, int64_t stride, int64_t height, int64_t width) {
    const int64_t padding = kernel / 2;
    units.push_back({conv, norm, in, out, kernel, stride, padding,
                     after_window(height, kernel, stride, padding),
                     after_window(width, kernel, stride, padding), units.empty()});
  };
  add("conv1", "bn1", o.input_shape[0], kStageWidths[0], 7, 2, o.input_shape[1], o.input_shape[2]);
  int64_t height = after_window(units[0].height, 3, 2, 1);  // size after the max pooling that
                                                            // follows
  int64_t width = after_window(units[0].width, 3, 2, 1);
  int64_t in = kStageWidths[0];
  for (size_t stage = 0; stage < kStageWidths.size(); ++stage) {
    const int64_t out = kStageWidths[stage];
    for (int64_t block = 0; block < kBlocksOfAStage; ++block) {
      const std::string name = c10::str("layer", stage + 1, ".", block, ".");
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      add(name + "conv1", name + "bn1", in, out, 3, stride, height, width);
      const UnitShape first = units.back();
      add(name + "conv2", name + "bn2", out, out, 3, 1, first.height, first.width);
      if (stride != 1) {
        add(name + "downsample.0", name + "downsample.1", in, out, 1, stride, height, width);
      }
      height = first.height;
      width = first.width;
      in = out;
    }
  }
  return units;
}

std::vector<int64_t> weight_shape(const UnitShape& unit, int64_t factor) {
  return {unit.out * factor, unit.in * (unit.first ? 1 : factor), unit.kernel, unit.kernel};
}

/// Shapes of the tensors in a file.
NamedShapes resnet_tensors(const PictureOptions& o, const std::vector<UnitShape>& units) {
  NamedShapes shapes;
  for (const UnitShape& unit : units) {
    shapes[unit.conv + ".weight"] = weight_shape(unit, o.width_factor);
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      shapes[unit.norm + part] = {unit.out * o.width_factor};
    }
    shapes[unit.norm + ".num_batches_tracked"] = {};
  }
  shapes["fc.weight"] = {o.outputs, kStageWidths.back() * o.width_factor};
  shapes["fc.bias"] = {o.outputs};
  return shapes;
}

Network restore_resnet(const std::string& text, const NamedTensors& tensors) {
  const auto options =
      from_json_exactly<PictureOptions>(parse_json(text, "the architecture record"));
  const auto dtype = require_file_tensors(tensors, resnet_tensors(options, resnet_units(options)));
  for (const auto& [name, tensor] : tensors) {
    constexpr std::string_view kVariance = ".running_var";
    const bool variance =
        name.size() > kVariance.size() &&
        name.compare(name.size() - kVariance.size(), kVariance.size(), kVariance) == 0;
    CDT_REQUIRE(!variance || tensor.ge(0).all().item<bool>(), name,
                " must not be negative; its smallest entry is ", tensor.min().item<double>());
  }
  ResNet18 model(options, /*seed=*/0, dtype);
  copy_tensors(tensors, model->saved_tensors());
  return model;
}

}  // namespace

PictureOptions resnet18_options(std::vector<int64_t> input_shape, int64_t outputs) {
  PictureOptions o;
  o.architecture = kResNet18;
  o.input_shape = std::move(input_shape);
  o.outputs = outputs;
  return o;
}

ResNet18Impl::ResNet18Impl(PictureOptions options, uint64_t seed, torch::ScalarType dtype)
    : options_(std::move(options)) {
  const std::vector<UnitShape> shapes = resnet_units(options_);
  require_room(resnet_tensors(options_, shapes), dtype, c10::str("the network ", describe()));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const int64_t s = options_.width_factor;
  const auto scaling = [&](const FanIn& fan_in) {
    return layer_scaling(options_.parametrization, fan_in, options_.sigma_w, options_.sigma_b);
  };
  for (const UnitShape& shape : shapes) {
    Unit unit{shape.conv,
              shape.norm,
              shape.stride,
              shape.padding,
              static_cast<double>(shape.height * shape.width),
              {}};
    unit.scaling = scaling({shape.in, shape.kernel * shape.kernel, shape.first ? 1 : s});
    const int64_t out = shape.out * s;
    tensors_[unit.conv + ".weight"] =
        draw_normal(weight_shape(shape, s), unit.scaling.weight_std, generator, dtype);
    tensors_[unit.norm + ".weight"] = torch::ones({out}, dtype);
    tensors_[unit.norm + ".bias"] = draw_normal({out}, unit.scaling.bias_std, generator, dtype);
    tensors_[unit.norm + ".running_mean"] = torch::zeros({out}, dtype);
    tensors_[unit.norm + ".running_var"] = torch::ones({out}, dtype);
    tensors_[unit.norm + ".num_batches_tracked"] = torch::zeros({}, torch::kInt64);
    units_.push_back(std::move(unit));
  }
  const int64_t in = kStageWidths.back();
  head_ = scaling({in, 1, s});
  tensors_["fc.weight"] =
      draw_normal({options_.outputs, in * s}, head_.weight_std, generator, dtype);
  tensors_["fc.bias"] = draw_normal({options_.outputs}, head_.bias_std, generator, dtype);

  // θ begins with the last layer. Parameter names must not contain dots.
  const auto take = [&](const std::string& name, bool trained) {
    std::string plain = name;
    std::replace(plain.begin(), plain.end(), '.', '_');
    tensors_[name] = trained ? register_parameter(plain, tensors_[name])
                             : register_buffer(plain, tensors_[name]);
  };
  take("fc.weight", true);
  take("fc.bias", true);
  for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
    take(unit->conv + ".weight", true);
    take(unit->norm + ".weight", true);
    take(unit->norm + ".bias", true);
    for (const char* part : {".running_mean", ".running_var", ".num_batches_tracked"}) {
      take(unit->norm + part, false);
    }
  }
}

const Tensor& ResNet18Impl::tensor(const std::string& layer, const char* part) const {
  return tensors_.at(c10::str(layer, ".", part));
}

Tensor ResNet18Impl::apply(const Unit& unit, const Tensor& x) const {
  const Tensor h = torch::conv2d(x, scaled(tensor(unit.conv, "weight"), unit.scaling.weight_factor),
                                 {}, unit.stride, unit.padding);
  return torch::batch_norm(h, tensor(unit.norm, "weight"),
                           scaled(tensor(unit.norm, "bias"), unit.scaling.bias_factor),
                           tensor(unit.norm, "running_mean"), tensor(unit.norm, "running_var"),
                           /*training=*/false, /*momentum=*/0, kNormEpsilon,
                           /*cudnn_enabled=*/true);
}

Tensor ResNet18Impl::forward(Tensor x) {
  require_pictures(x, options_);
  size_t next = 0;
  x = activate(options_.activation, apply(units_[next++], x));
  x = torch::max_pool2d(x, 3, 2, 1);
  while (next < units_.size()) {
    const Unit& first = units_[next++];
    Tensor h = apply(units_[next++], activate(options_.activation, apply(first, x)));
    h = h + (first.stride == 1 ? x : apply(units_[next++], x));
    x = activate(options_.activation, h);
  }
  return torch::linear(x.mean({2, 3}), scaled(tensor("fc", "weight"), head_.weight_factor),
                       scaled(tensor("fc", "bias"), head_.bias_factor));
}

NamedTensors ResNet18Impl::acting_tensors() const {
  NamedTensors tensors = tensors_;
  const auto scale = [&](const std::string& name, double factor) {
    tensors[name] = scaled(tensors.at(name), factor);
  };
  for (const Unit& unit : units_) {
    scale(unit.conv + ".weight", unit.scaling.weight_factor);
    scale(unit.norm + ".bias", unit.scaling.bias_factor);
  }
  scale("fc.weight", head_.weight_factor);
  scale("fc.bias", head_.bias_factor);
  return tensors;
}

std::string ResNet18Impl::record() const { return to_json_value(options_).dump(); }

std::string ResNet18Impl::describe() const {
  return c10::str(options_.architecture, " ", c10::Join("×", options_.input_shape), "-",
                  options_.outputs);
}

Operations ResNet18Impl::operations_per_sample() const {
  Operations count;
  const auto add = [&](const Tensor& weight, double positions) {
    const double product = 2 * static_cast<double>(weight.numel()) * positions;
    // Without the gradient of the inputs.
    count.step += (count.forward == 0 ? 2 : 3) * product;
    count.forward += product;
  };
  for (const Unit& unit : units_) add(tensor(unit.conv, "weight"), unit.positions);
  add(tensor("fc", "weight"), 1);
  return count;
}

Architecture resnet18_architecture() {
  return {kResNet18,
          [](const NetworkOptions& options, uint64_t seed, torch::ScalarType dtype) {
            CDT_REQUIRE(options.hidden.empty(),
                        "the layers of a resnet18 are given; hidden widths are for others");
            PictureOptions layers = resnet18_options(options.input_shape, options.outputs);
            take_options(options, layers);
            return Network(ResNet18(layers, seed, dtype));
          },
          restore_resnet};
}

}  // namespace cdt::nn
