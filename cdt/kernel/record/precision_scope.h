/// Full float32 precision during kernel computations.
#pragma once

namespace cdt::kernel {

/// While it exists, products of float32 matrices and convolutions are not rounded to TF32 or
/// bfloat16, which have three digits. LibTorch's settings are global, so all threads share one
/// scope: the first in saves them and switches to full precision, the last out restores them.
/// (Training on another thread meanwhile has full precision, too.)
///
/// From LibTorch 2.11 on the settings are those of `fp32_precision`, whichever interface the user
/// chose. Older versions have TF32 flags; in 2.9 and 2.10 these cannot be read if the user has
/// mixed both interfaces. The settings are then left unchanged, with one warning.
class FullPrecisionScope {
 public:
  FullPrecisionScope();
  ~FullPrecisionScope();
  FullPrecisionScope(const FullPrecisionScope&) = delete;
  FullPrecisionScope& operator=(const FullPrecisionScope&) = delete;
};

/// Whether float32 matrix products and convolutions outside such scopes, that is in training, may
/// be rounded to TF32 on a GPU. LibTorch's default allows it for convolutions only.
void allow_tf32(bool allowed);

}  // namespace cdt::kernel
