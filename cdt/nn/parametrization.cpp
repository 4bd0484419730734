#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/text/names.h>
#include <cdt/nn/parametrization.h>
#include <torch/types.h>

#include <cmath>

namespace cdt::nn {
namespace {

constexpr Names<Parametrization, 3> kParametrizations{{{"standard", Parametrization::kStandard},
                                                       {"ntk", Parametrization::kNtk},
                                                       {"improved", Parametrization::kImproved}}};

}  // namespace

Parametrization parse_parametrization(std::string_view name) {
  return parse_name(kParametrizations, name, "parametrization");
}
std::string to_string(Parametrization parametrization) {
  return name_of(kParametrizations, parametrization);
}

LayerScaling layer_scaling(Parametrization parametrization, const FanIn& fan_in, double sigma_w,
                           double sigma_b) {
  CDT_REQUIRE(fan_in.width >= 1, "a layer's input width must be 1 or more, got ", fan_in.width);
  CDT_REQUIRE(fan_in.positions >= 1, "a kernel must have 1 or more positions, got ",
              fan_in.positions);
  CDT_REQUIRE(fan_in.factor >= 1, "width factor must be 1 or more, got ", fan_in.factor);
  require_non_negative(sigma_w, "sigma_w");
  require_non_negative(sigma_b, "sigma_b");
  const double base = static_cast<double>(fan_in.width) * static_cast<double>(fan_in.positions);
  const auto s = static_cast<double>(fan_in.factor);
  switch (parametrization) {
    case Parametrization::kStandard:
      return {.weight_std = sigma_w / std::sqrt(s * base), .bias_std = sigma_b};
    case Parametrization::kNtk:
      return {.weight_factor = sigma_w / std::sqrt(s * base), .bias_factor = sigma_b};
    case Parametrization::kImproved:
      return {.weight_std = sigma_w / std::sqrt(base),
              .weight_factor = 1 / std::sqrt(s),
              .bias_std = sigma_b};
  }
  throw InvalidArgument(c10::str("unknown parametrization ", static_cast<int>(parametrization)));
}

torch::Tensor draw_normal(c10::IntArrayRef shape, double std, const at::Generator& generator,
                          torch::ScalarType dtype) {
  CDT_REQUIRE(generator.defined() && generator.device().is_cpu(),
              "parameters must be drawn with a CPU generator, got ",
              generator.defined() ? generator.device().str() : "an undefined one");
  return torch::randn(shape, generator, torch::kFloat64).mul_(std).to(dtype);
}

torch::Tensor scaled(const torch::Tensor& parameter, double factor) {
  return factor == 1 || !parameter.defined() ? parameter : parameter * factor;
}

}  // namespace cdt::nn
