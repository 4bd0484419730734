/// Networks for pictures as the paper's classification experiment has them: 77 of 3 × 96 × 96, two
/// outputs.
#pragma once

#include <cdt/nn/network.h>

#include <array>

namespace cdt::bench {

/// The first one has bars.
inline constexpr std::array<const char*, 2> kPictureNetworks{"alexnet", "resnet18"};

struct PictureProblem {
  /// Of an architecture, by its name.
  explicit PictureProblem(const std::string& architecture);
  /// Θ of the same network in float64. (By rules: on AlexNet's 57 million parameters rows of the
  /// Jacobian would need 70 GB; the tests compare the two on small networks.)
  torch::Tensor exact_kernel() const;

  nn::Network net;
  torch::Tensor x;
  torch::Tensor y;
};

}  // namespace cdt::bench
