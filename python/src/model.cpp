#include "model.h"

#include <cdt/core/error.h>
#include <torch/csrc/autograd/python_variable.h>

#include <memory>

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;

namespace {

Tensor call(const py::function& forward, const Tensor& x) {
  const py::gil_scoped_acquire lock;
  const py::object result = forward(x);
  CDT_REQUIRE(THPVariable_Check(result.ptr()), "the model must return one tensor, but returned ",
              Py_TYPE(result.ptr())->tp_name,
              "; wrap it in a function that picks the tensor (and pass its parameters as params=)");
  return THPVariable_Unpack(result.ptr());
}

}  // namespace

kernel::Model make_model(const py::function& forward, const std::vector<Tensor>& parameters) {
  const std::shared_ptr<py::function> shared(new py::function(forward), [](py::function* function) {
    const py::gil_scoped_acquire lock;
    delete function;
  });
  return kernel::Model([shared](const Tensor& x) { return call(*shared, x); }, parameters);
}

void check_signals() {
  const py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw PythonError();
}

}  // namespace cdt::python
