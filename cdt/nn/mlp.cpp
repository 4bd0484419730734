#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/core/machine/memory.h>
#include <cdt/nn/mlp.h>

#include <algorithm>
#include <limits>

namespace cdt::nn {

using torch::Tensor;

namespace {

/// Sizes of wider layers would overflow.
constexpr int64_t kWidest = std::numeric_limits<int32_t>::max();

/// Units of each layer, beginning with the inputs.
/// @throws InvalidArgument if a number is out of its range, or memory is insufficient.
std::vector<int64_t> widths_of(const MlpOptions& options, torch::ScalarType dtype) {
  const auto require_width = [](int64_t width, std::string_view name) {
    CDT_REQUIRE(width >= 1 && width <= kWidest, name, " must be from 1 to ", kWidest, ", got ",
                width);
  };
  require_width(options.inputs, "inputs");
  require_width(options.outputs, "outputs");
  require_width(options.width_factor, "width factor");
  std::vector<int64_t> widths{options.inputs};
  for (const int64_t units : options.hidden) {
    const std::string name = c10::str("the units of hidden layer ", widths.size());
    require_width(units, name);
    widths.push_back(units * options.width_factor);  // both fit into 31 bits
    require_width(widths.back(), c10::str(name, " times the width factor"));
  }
  widths.push_back(options.outputs);
  double parameters = 0, largest = 0;
  for (size_t layer = 1; layer < widths.size(); ++layer) {
    const double units = static_cast<double>(widths[layer]);
    const double weights = units * static_cast<double>(widths[layer - 1]);
    parameters += weights + (options.bias ? units : 0);
    largest = std::max(largest, weights);
  }
  // Each layer is drawn in float64.
  const double bytes = parameters * static_cast<double>(c10::elementSize(dtype)) +
                       largest * static_cast<double>(sizeof(double));
  require_memory(bytes, c10::str("a network ", c10::Join("-", widths)));
  return widths;
}

}  // namespace

MlpImpl::MlpImpl(MlpOptions options, uint64_t seed, torch::ScalarType dtype)
    : options_(std::move(options)) {
  const std::vector<int64_t> widths = widths_of(options_, dtype);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  int64_t base_in = options_.inputs;
  int64_t factor_in = 1;  // the input layer is never widened
  for (size_t layer = 0; layer <= options_.hidden.size(); ++layer) {
    const bool last = layer == options_.hidden.size();
    const int64_t base_out = last ? options_.outputs : options_.hidden[layer];
    const int64_t factor_out = last ? 1 : options_.width_factor;
    const LayerScaling scaling =
        layer_scaling(options_.parametrization, {.width = base_in, .factor = factor_in},
                      options_.sigma_w, options_.sigma_b);
    const int64_t out = widths[layer + 1];
    weights_.push_back(draw_normal({out, widths[layer]}, scaling.weight_std, generator, dtype));
    if (options_.bias) {
      biases_.push_back(draw_normal({out}, scaling.bias_std, generator, dtype));
    }
    scalings_.push_back(scaling);
    base_in = base_out;
    factor_in = factor_out;
  }
  for (size_t layer = weights_.size(); layer-- > 0;) {
    register_parameter(c10::str("layers_", layer, "_weight"), weights_[layer]);
    if (options_.bias) register_parameter(c10::str("layers_", layer, "_bias"), biases_[layer]);
  }
}

bool MlpImpl::scaled() const {
  return std::any_of(scalings_.begin(), scalings_.end(), [](const LayerScaling& scaling) {
    return scaling.weight_factor != 1 || scaling.bias_factor != 1;
  });
}

Tensor MlpImpl::forward(Tensor x) {
  CDT_REQUIRE(x.dim() >= 1 && x.size(-1) == options_.inputs, "the network takes ", options_.inputs,
              " features a sample; the inputs have shape ", x.sizes());
  for (size_t layer = 0; layer < weights_.size(); ++layer) {
    if (layer > 0) x = activate(options_.activation, x);
    const LayerScaling& scaling = scalings_[layer];
    const Tensor bias = biases_.empty() ? Tensor() : biases_[layer];
    x = torch::linear(x, nn::scaled(weights_[layer], scaling.weight_factor),
                      nn::scaled(bias, scaling.bias_factor));
  }
  return x;
}

std::string MlpImpl::describe() const {
  std::string text = std::to_string(options_.inputs);
  for (const Tensor& weight : weights_) text += c10::str("-", weight.size(0));
  return text;
}

Operations MlpImpl::operations_per_sample() const {
  Operations count;
  for (size_t layer = 0; layer < weights_.size(); ++layer) {
    const double product = 2 * static_cast<double>(weights_[layer].numel());
    count.forward += product;
    count.step += (layer == 0 ? 2 : 3) * product;  // without the gradient of the inputs
  }
  return count;
}

}  // namespace cdt::nn
