/// The state in which derivatives are taken, whatever the caller's: with a graph, in the network's
/// own precision.
#pragma once

#include <ATen/Context.h>
#include <cdt/core/error.h>
#include <torch/types.h>

namespace cdt::kernel {

/// For as long as it lives, autograd records (the caller may be in a NoGradGuard), and GPUs do not
/// round products to TF32: a kernel wants all digits of float32, not three.
/// @throws InvalidArgument in InferenceMode, where nothing can be differentiated.
class AutogradScope {
 public:
  AutogradScope()
      : convolutions_(at::globalContext().allowTF32CuDNN()),
        products_(at::globalContext().allowTF32CuBLAS()) {
    CDT_REQUIRE(!c10::InferenceMode::is_enabled(),
                "derivatives cannot be taken in InferenceMode; leave it first");
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
  }
  ~AutogradScope() {
    at::globalContext().setAllowTF32CuDNN(convolutions_);
    at::globalContext().setAllowTF32CuBLAS(products_);
  }
  AutogradScope(const AutogradScope&) = delete;
  AutogradScope& operator=(const AutogradScope&) = delete;

 private:
  bool convolutions_;
  bool products_;
  torch::AutoGradMode with_graph_{true};
};

}  // namespace cdt::kernel
