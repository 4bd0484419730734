/// How a layer's weights and biases are drawn and scaled (paper App. init, table NTK_init).
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <string>
#include <string_view>

namespace cdt::nn {

/// n_l is the base width of a layer's input, n_m the number of positions of its convolution kernel
/// (1 for dense layers), s the width factor of its input. All draw b ~ N(0, σ_b²).
enum class Parametrization {
  kStandard,  ///< W ~ N(0, σ_w²/(s n_l n_m)), used directly: the kernel grows with the width
  kNtk,       ///< W = σ_w/√(s n_l n_m)·w with w ~ N(0, 1), b = σ_b·β with β ~ N(0, 1)
  kImproved,  ///< W = w/√s with w ~ N(0, σ_w²/(n_l n_m)): equals kStandard at s = 1
};

Parametrization parse_parametrization(std::string_view name);
std::string to_string(Parametrization parametrization);

/// Number of products that one unit of a layer sums: s·n_l·n_m.
struct FanIn {
  int64_t width = 1;      ///< n_l, units or channels before widening
  int64_t positions = 1;  ///< n_m, height × width of a convolution kernel
  int64_t factor = 1;     ///< s
};

/// Parameters are drawn with standard deviation `_std` and multiplied by `_factor` in the forward
/// pass.
struct LayerScaling {
  double weight_std = 1;
  double weight_factor = 1;
  double bias_std = 1;
  double bias_factor = 1;
};

/// @throws InvalidArgument if a part of the fan-in is below 1, or a σ is negative or not finite.
LayerScaling layer_scaling(Parametrization parametrization, const FanIn& fan_in, double sigma_w,
                           double sigma_b);

/// Samples N(0, std²) on the CPU in float64, then rounds: the same numbers in either precision.
/// @throws InvalidArgument if the generator is undefined or not a CPU generator.
torch::Tensor draw_normal(c10::IntArrayRef shape, double std, const at::Generator& generator,
                          torch::ScalarType dtype);

/// factor·parameter; the parameter itself if the factor is 1, undefined if it is undefined.
torch::Tensor scaled(const torch::Tensor& parameter, double factor);

}  // namespace cdt::nn
