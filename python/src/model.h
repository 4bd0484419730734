/// A Python function as a model of the library: the recorder sees the operators that it calls.
#pragma once

#include <torch/csrc/utils/pybind.h>
// Python first, as its headers want it

#include <cdt/core/interrupt.h>
#include <cdt/kernel/model.h>

#include <memory>
#include <vector>

// Whatever holds Python objects is hidden, as pybind11's own namespace is.
#pragma GCC visibility push(hidden)
namespace cdt::python {

/// An error of Python on its way through C++; `what()` is not its message.
using PythonError = pybind11::error_already_set;

/// A function that may be copied and destroyed without the lock of the interpreter, not called.
std::shared_ptr<pybind11::function> shared_function(const pybind11::function& function);

/// `forward` is called with the lock of the interpreter held, from whichever thread asks, and may
/// be copied and destroyed without it. What it raises comes out as itself.
/// @throws InvalidArgument if it returns anything but a tensor, or as kernel::Model does.
kernel::Model make_model(const pybind11::function& forward,
                         const std::vector<torch::Tensor>& parameters);

/// Lets a pending signal speak, Ctrl-C above all.
/// @throws PythonError if its handler raised.
void check_signals();

/// Work of the library: without the lock of the interpreter, and ended by a signal that raises.
class Unlocked {
 private:
  pybind11::gil_scoped_release unlocked_;
  InterruptScope interrupts_{check_signals};
};
using WithoutLock = pybind11::call_guard<Unlocked>;

/// One function for each topic: it adds its names to the module.
void bind_control(pybind11::module_& module);
void bind_estimators(pybind11::module_& module);
void bind_kernel(pybind11::module_& module);
void bind_train(pybind11::module_& module);

}  // namespace cdt::python
#pragma GCC visibility pop
