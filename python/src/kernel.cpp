/// Kernels and products with derivatives.
#include <cdt/core/error.h>
#include <cdt/kernel/ntk.h>
#include <torch/csrc/Dtype.h>

#include "model.h"

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;

namespace {

torch::ScalarType dtype_of(const py::object& dtype) {
  CDT_REQUIRE(THPDtype_Check(dtype.ptr()), "expected a torch.dtype, but a ",
              Py_TYPE(dtype.ptr())->tp_name, " came");
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

kernel::Ntk ntk(const kernel::Model& model, const Tensor& x, const std::optional<Tensor>& x2,
                std::optional<int64_t> memory, const py::object& accumulate, bool rows) {
  const torch::ScalarType dtype = dtype_of(accumulate);
  const py::gil_scoped_release unlocked;
  kernel::NtkOptions options;
  if (memory) options.memory_bytes = *memory;
  options.accumulate = dtype;
  if (rows) options.path = kernel::NtkOptions::Path::kJacobian;
  options.progress = [](int64_t, int64_t) { check_signals(); };
  return x2 ? kernel::empirical_ntk(model, x, *x2, options)
            : kernel::empirical_ntk(model, x, options);
}

}  // namespace

void bind_kernel(py::module_& module) {
  py::class_<kernel::Model>(module, "Model")
      .def(py::init(&make_model), py::arg("forward"), py::arg("parameters"))
      .def_property_readonly("parameters", &kernel::Model::parameters)
      .def_property_readonly("parameter_count", &kernel::Model::parameter_count);
  py::class_<kernel::Ntk>(module, "Ntk")
      .def_readonly("theta", &kernel::Ntk::theta)
      .def_readonly("outputs", &kernel::Ntk::outputs)
      .def_readonly("self_check", &kernel::Ntk::self_check)
      .def("brief_report", &kernel::Ntk::brief_report);
  module.def("ntk", &ntk, py::arg("model"), py::arg("x"), py::arg("x2"), py::arg("memory"),
             py::arg("accumulate"), py::arg("rows") = false);
}

}  // namespace cdt::python
