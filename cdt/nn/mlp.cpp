#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/nn/mlp.h>

#include <algorithm>

namespace cdt::nn {

using torch::Tensor;

MlpImpl::MlpImpl(MlpOptions options, uint64_t seed, torch::ScalarType dtype)
    : options_(std::move(options)) {
  CDT_REQUIRE(options_.inputs >= 1, "inputs must be 1 or more, not ", options_.inputs);
  CDT_REQUIRE(options_.outputs >= 1, "outputs must be 1 or more, not ", options_.outputs);
  CDT_REQUIRE(options_.width_factor >= 1, "width factor must be 1 or more, not ",
              options_.width_factor);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  int64_t base_in = options_.inputs;
  int64_t factor_in = 1;  // the input layer is never widened
  for (size_t layer = 0; layer <= options_.hidden.size(); ++layer) {
    const bool last = layer == options_.hidden.size();
    const int64_t base_out = last ? options_.outputs : options_.hidden[layer];
    CDT_REQUIRE(base_out >= 1, "hidden layer ", layer + 1, " must have 1 or more units, not ",
                base_out);
    const int64_t factor_out = last ? 1 : options_.width_factor;
    const LayerScaling scaling =
        layer_scaling(options_.parametrization, {.width = base_in, .factor = factor_in},
                      options_.sigma_w, options_.sigma_b);
    const int64_t out = base_out * factor_out;
    weights_.push_back(
        draw_normal({out, base_in * factor_in}, scaling.weight_std, generator, dtype));
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
    count.step += (layer == 0 ? 2 : 3) * product;  // nobody needs the gradient of the inputs
  }
  return count;
}

}  // namespace cdt::nn
