/// Options shared by networks for pictures.
#pragma once

#include <cdt/core/fields.h>
#include <cdt/nn/architectures.h>

namespace cdt::nn {

struct PictureOptions {
  std::string architecture;
  std::vector<int64_t> input_shape{3, 32, 32};  ///< channels, height, width
  int64_t outputs = 1;
  Activation activation = Activation::kRelu;
  Parametrization parametrization = Parametrization::kStandard;
  double sigma_w = 1.0;
  double sigma_b = 0.1;
  int64_t width_factor = 1;  ///< s, of all layers except inputs and outputs

  void fields(Fields& f);  ///< fields of its record in files, docs/formats.md
};

}  // namespace cdt::nn
