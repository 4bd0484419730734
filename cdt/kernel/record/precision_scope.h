/// All digits of float32 for as long as a kernel is computed.
#pragma once

namespace cdt::kernel {

/// For as long as it lives, products of float32 matrices and convolutions are not rounded to TF32
/// or bfloat16: a kernel wants all digits, not three. LibTorch's settings for that belong to the
/// process, so all threads share one scope: the first one in saves them and switches to full
/// precision, the last one out restores them. (What another thread trains meanwhile has full
/// precision, too.)
///
/// From LibTorch 2.11 on the settings are those of `fp32_precision`, whichever interface the user
/// took. Older versions know TF32 flags; where a user of 2.9 or 2.10 has mixed both interfaces,
/// they refuse to be read. Then everything stays as the user has set it, and a warning says so
/// once.
class FullPrecisionScope {
 public:
  FullPrecisionScope();
  ~FullPrecisionScope();
  FullPrecisionScope(const FullPrecisionScope&) = delete;
  FullPrecisionScope& operator=(const FullPrecisionScope&) = delete;
};

/// Whether products of float32 matrices and convolutions outside such scopes, those of training,
/// may be rounded to TF32 on a GPU. LibTorch's own default allows it to convolutions alone.
void allow_tf32(bool allowed);

}  // namespace cdt::kernel
