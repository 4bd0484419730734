/// The extension cdt._core, on which the package's Python files are built.
#include <c10/util/Exception.h>
#include <cdt/core/error.h>
#include <torch/csrc/Exceptions.h>

#include <cstdlib>

#include "model.h"

namespace py = pybind11;

namespace {

/// Memory returned to the system with each tensor is cleared at the next allocation, while threads
/// wait. Glibc keeps blocks up to the size of the largest that was ever freed, and twice as much in
/// total, so this frees a large block that was never touched. (The program sets both limits by
/// mallopt, which would disable that rule for the user's whole process.)
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
  // pybind11 converts std::invalid_argument, and so InvalidArgument, to ValueError, and
  // runtime_error to RuntimeError.
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const cdt::IoError& e) {
      PyErr_SetString(PyExc_OSError, e.what());
    } catch (python_error& e) {  // LibTorch's wrapper of a Python error
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
