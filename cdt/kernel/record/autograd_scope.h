/// The state in which derivatives are taken, whatever the caller's.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <cdt/core/error.h>
#include <cdt/kernel/record/precision_scope.h>

namespace cdt::kernel {

/// For as long as it lives, autograd records: the caller may be in a NoGradGuard. All that training
/// needs; the precision of products stays the user's.
/// @throws InvalidArgument in InferenceMode, where nothing can be differentiated.
class AutogradScope {
 public:
  AutogradScope() {
    CDT_REQUIRE(!c10::InferenceMode::is_enabled(),
                "derivatives cannot be taken in InferenceMode; leave it first");
  }
  AutogradScope(const AutogradScope&) = delete;
  AutogradScope& operator=(const AutogradScope&) = delete;

 private:
  at::AutoGradMode with_graph_{true};
};

/// What kernels and products with derivatives run in: with a graph, and all digits of float32.
class KernelScope {
 private:
  AutogradScope with_graph_;
  FullPrecisionScope full_precision_;
};

}  // namespace cdt::kernel
