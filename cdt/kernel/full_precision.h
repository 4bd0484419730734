/// Convolutions in the network's own precision for as long as the guard lives.
#pragma once

#include <ATen/Context.h>

namespace cdt::kernel {

/// cuDNN may round convolutions to TF32, three digits; a kernel wants all of float32's.
class FullPrecision {
 public:
  FullPrecision() : before_(at::globalContext().allowTF32CuDNN()) {
    at::globalContext().setAllowTF32CuDNN(false);
  }
  ~FullPrecision() { at::globalContext().setAllowTF32CuDNN(before_); }
  FullPrecision(const FullPrecision&) = delete;
  FullPrecision& operator=(const FullPrecision&) = delete;

 private:
  bool before_;
};

}  // namespace cdt::kernel
