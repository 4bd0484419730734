/// Autograd state for taking derivatives, whatever the caller's state.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <cdt/core/error.h>
#include <cdt/kernel/record/precision_scope.h>

namespace cdt::kernel {

/// While it exists, autograd records, even inside a NoGradGuard of the caller. Training needs only
/// this; matrix products keep the user's precision.
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

/// State for kernels and products of derivatives: autograd records, and float32 products have full
/// precision.
class KernelScope {
 private:
  AutogradScope with_graph_;
  FullPrecisionScope full_precision_;
};

}  // namespace cdt::kernel
