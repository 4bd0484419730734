#include "model.h"

#include <cdt/core/error.h>
#include <cdt/kernel/playback.h>
#include <torch/csrc/autograd/python_variable.h>

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;

namespace {

/// A model may fail just because it is recorded: LibTorch's errors are then attributed to the
/// recorder.
py::object call_or_record(const py::function& forward, const Tensor& x) {
  if (!kernel::recording_here()) return forward(x);
  try {
    return forward(x);
  } catch (const PythonError& error) {
    if (!error.matches(PyExc_RuntimeError)) throw;
    C10_THROW_ERROR(Error, error.what());
  }
}

Tensor call(const py::function& forward, const Tensor& x) {
  const py::gil_scoped_acquire lock;
  const py::object result = call_or_record(forward, x);
  CDT_REQUIRE(THPVariable_Check(result.ptr()), "the model must return one tensor, but returned ",
              Py_TYPE(result.ptr())->tp_name,
              "; wrap it in a module whose forward picks the tensor");
  return THPVariable_Unpack(result.ptr());
}

}  // namespace

std::shared_ptr<py::function> shared_function(const py::function& function) {
  return {new py::function(function), [](py::function* held) {
            const py::gil_scoped_acquire lock;
            delete held;
          }};
}

kernel::Model make_model(const py::function& forward, const std::vector<Tensor>& parameters) {
  const auto shared = shared_function(forward);
  return kernel::Model([shared](const Tensor& x) { return call(*shared, x); }, parameters);
}

void check_signals() {
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw PythonError();
}

}  // namespace cdt::python
