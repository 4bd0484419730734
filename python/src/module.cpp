/// The extension cdt._core: what the package's Python files are made of.
#include <c10/util/Exception.h>
#include <cdt/core/error.h>
#include <torch/csrc/Exceptions.h>

#include <cstdlib>

#include "model.h"

namespace py = pybind11;

namespace {

/// Memory that goes back to the system with each tensor is cleared by it each time, and threads
/// wait for each other meanwhile. Glibc keeps blocks up to the largest that was ever freed, and
/// twice as much together: here is a large one, never touched. (The program sets both, by mallopt,
/// which would end that rule for the whole of the user's process.)
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr size_t kLarge = size_t{31} << 20;  // the rule ends at 32 MiB
  void* volatile block = std::malloc(kLarge);
  std::free(block);
#endif
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  keep_freed_memory();
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
