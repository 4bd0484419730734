/// A Python function as a model of the library: the recorder observes the operators that it calls.
#pragma once

#include <torch/csrc/utils/pybind.h>
// Python headers come first, as they require

#include <cdt/core/interrupt.h>
#include <cdt/kernel/model.h>

#include <memory>
#include <vector>

// Everything that holds Python objects is hidden, as pybind11's own namespace is.
#pragma GCC visibility push(hidden)
namespace cdt::python {

/// A Python error passing through C++; `what()` is not its message.
using PythonError = pybind11::error_already_set;

/// A function that may be copied and destroyed without the interpreter lock, but not called.
std::shared_ptr<pybind11::function> shared_function(const pybind11::function& function);

/// `forward` is called with the interpreter lock, from any thread, and may be copied and destroyed
/// without it. Its exceptions propagate unchanged.
/// @throws InvalidArgument if it does not return a tensor, or as kernel::Model does.
kernel::Model make_model(const pybind11::function& forward,
                         const std::vector<torch::Tensor>& parameters);

/// Handles pending signals, such as Ctrl-C.
/// @throws PythonError if a signal handler raised.
void check_signals();

/// Releases the interpreter lock during work of the library, which a raising signal ends.
class Unlocked {
 private:
  pybind11::gil_scoped_release unlocked_;
  InterruptScope interrupts_{check_signals};
};
using WithoutLock = pybind11::call_guard<Unlocked>;

/// One function per topic: it adds its names to the module.
void bind_control(pybind11::module_& module);
void bind_estimators(pybind11::module_& module);
void bind_kernel(pybind11::module_& module);
void bind_train(pybind11::module_& module);

}  // namespace cdt::python
#pragma GCC visibility pop
