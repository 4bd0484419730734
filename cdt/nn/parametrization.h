/// How a layer's weights and biases are drawn and scaled (paper App. init, table NTK_init).
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <string>
#include <string_view>

namespace cdt::nn {

/// With n_l the base width of a layer's input, n_m the positions of its convolution kernel (1 where
/// it is dense) and s the width factor of its input; b ~ N(0, σ_b²) in each:
enum class Parametrization {
  kStandard,  ///< W ~ N(0, σ_w²/(s n_l n_m)), used as it is: the kernel grows with the width
  kNtk,       ///< W = σ_w/√(s n_l n_m)·w with w ~ N(0, 1), b = σ_b·β with β ~ N(0, 1)
  kImproved,  ///< W = w/√s with w ~ N(0, σ_w²/(n_l n_m)): equals kStandard at s = 1
};

Parametrization parse_parametrization(std::string_view name);
std::string to_string(Parametrization parametrization);

/// What one unit of a layer sums over: s·n_l·n_m products.
struct FanIn {
  int64_t width = 1;      ///< n_l, units or channels before widening
  int64_t positions = 1;  ///< n_m, height × width of a convolution kernel
  int64_t factor = 1;     ///< s
};

/// A parameter is drawn with the standard deviation `_std` and multiplied by `_factor` in the
/// forward pass.
struct LayerScaling {
  double weight_std = 1;
  double weight_factor = 1;
  double bias_std = 1;
  double bias_factor = 1;
};

/// @throws InvalidArgument if a part of the fan-in is below 1, or a σ is negative or not finite.
LayerScaling layer_scaling(Parametrization parametrization, const FanIn& fan_in, double sigma_w,
                           double sigma_b);

/// N(0, std²), drawn on the CPU in float64 and rounded: the same numbers in either precision.
/// @throws InvalidArgument if the generator is undefined or not the CPU's.
torch::Tensor draw_normal(c10::IntArrayRef shape, double std, const at::Generator& generator,
                          torch::ScalarType dtype);

/// factor·parameter; the parameter itself at factor 1, and undefined where it is.
torch::Tensor scaled(const torch::Tensor& parameter, double factor);

}  // namespace cdt::nn
