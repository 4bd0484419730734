/// The extension cdt._core: what the package's Python files are made of.
#include <c10/util/Exception.h>
#include <cdt/core/error.h>
#include <torch/csrc/Exceptions.h>

#include "model.h"

namespace py = pybind11;

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ library behind cdt. Use the package's own functions.";
  // std::invalid_argument, our InvalidArgument too, becomes ValueError by itself, runtime_error
  // RuntimeError.
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const cdt::IoError& e) {
      PyErr_SetString(PyExc_OSError, e.what());
    } catch (python_error& e) {  // LibTorch's own carrier, from a Python function in a graph
      e.restore();
    } catch (const c10::Error& e) {
      PyErr_SetString(PyExc_RuntimeError, e.what_without_backtrace());
    }
  });
  cdt::python::bind_kernel(module);
  cdt::python::bind_control(module);
  cdt::python::bind_train(module);
  cdt::python::bind_estimators(module);
}
