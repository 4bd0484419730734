#include <ATen/CPUGeneratorImpl.h>
#include <cdt/core/error.h>
#include <cdt/nn/conv.h>

namespace cdt::nn {
namespace {

using torch::Tensor;

void require_at_least(int64_t least, int64_t value, std::string_view name) {
  CDT_REQUIRE(value >= least, name, " must be ", least, " or more, got ", value);
}

}  // namespace

Conv2dImpl::Conv2dImpl(Conv2dOptions options, uint64_t seed, torch::ScalarType dtype)
    : Conv2dImpl(options, at::make_generator<at::CPUGeneratorImpl>(seed), dtype) {}

Conv2dImpl::Conv2dImpl(Conv2dOptions options, const at::Generator& generator,
                       torch::ScalarType dtype)
    : options_(options) {
  require_at_least(1, options_.in_channels, "input channels");
  require_at_least(1, options_.out_channels, "output channels");
  require_at_least(1, options_.width_factor_in, "the input's width factor");
  require_at_least(1, options_.width_factor_out, "the output's width factor");
  for (size_t side : {0, 1}) {
    require_at_least(1, options_.kernel_size->at(side), "kernel size");
    require_at_least(1, options_.stride->at(side), "stride");
    require_at_least(0, options_.padding->at(side), "padding");
  }
  const auto [height, width] = *options_.kernel_size;
  scaling_ = layer_scaling(options_.parametrization,
                           {.width = options_.in_channels,
                            .positions = height * width,
                            .factor = options_.width_factor_in},
                           options_.sigma_w, options_.sigma_b);
  const int64_t in = options_.in_channels * options_.width_factor_in;
  const int64_t out = options_.out_channels * options_.width_factor_out;
  weight_ = register_parameter(
      "weight", draw_normal({out, in, height, width}, scaling_.weight_std, generator, dtype));
  if (options_.bias) {
    bias_ = register_parameter("bias", draw_normal({out}, scaling_.bias_std, generator, dtype));
  }
}

Tensor Conv2dImpl::forward(const Tensor& x) {
  CDT_REQUIRE(x.dim() == 4 && x.size(1) == weight_.size(1),
              "the layer takes inputs [r, c, h, w] with ", weight_.size(1),
              " channels; the inputs have shape ", x.sizes());
  for (size_t side : {0, 1}) {
    const int64_t padded = x.size(2 + static_cast<int64_t>(side)) + 2 * options_.padding->at(side);
    CDT_REQUIRE(padded >= options_.kernel_size->at(side), "the kernel of ", options_.kernel_size,
                " must fit into the padded inputs, which have shape ", x.sizes(), " and padding ",
                options_.padding);
  }
  return torch::conv2d(x, scaled(weight_, scaling_.weight_factor),
                       scaled(bias_, scaling_.bias_factor), *options_.stride, *options_.padding);
}

}  // namespace cdt::nn
