/// Kernels and products with derivatives.
#include <cdt/core/error.h>
#include <cdt/core/machine/memory.h>
#include <cdt/core/tolerance.h>
#include <cdt/dynamics/lanczos.h>
#include <cdt/kernel/linearization.h>
#include <cdt/kernel/local_model.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/product/operator.h>
#include <cdt/kernel/products.h>
#include <cdt/kernel/record/own_memory.h>
#include <cdt/kernel/record/recorder.h>
#include <torch/csrc/Dtype.h>

#include "model.h"

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;

namespace {

torch::ScalarType dtype_of(const py::object& dtype) {
  CDT_REQUIRE(THPDtype_Check(dtype.ptr()), "expected a torch.dtype, got a ",
              Py_TYPE(dtype.ptr())->tp_name);
  return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
}

/// From this many bytes on, counting one output, the memory for a kernel is checked first.
constexpr double kLargeKernel = 1 << 28;

/// Gives a clearer message than a failed allocation or a killed process.
void require_room(const kernel::Model& model, const Tensor& x, const Tensor& x2,
                  torch::ScalarType dtype) {
  if (!x.device().is_cpu() || x.dim() == 0 || x2.dim() == 0) return;
  const auto entries = static_cast<double>(x.size(0)) * static_cast<double>(x2.size(0));
  const auto size = static_cast<double>(c10::elementSize(dtype));
  if (entries * size < kLargeKernel) return;
  const int64_t outputs = kernel::outputs_per_sample(model, x);
  require_memory(entries * size * static_cast<double>(outputs * outputs),
                 c10::str("the kernel [", x.size(0) * outputs, ", ", x2.size(0) * outputs,
                          "] (cdt.NTK has products with it, and no matrix)"));
}

kernel::Ntk ntk(const kernel::Model& model, const Tensor& x, const std::optional<Tensor>& x2,
                std::optional<int64_t> memory, const py::object& accumulate,
                std::optional<bool> repeatable) {
  using Replay = kernel::NtkOptions::Replay;
  kernel::NtkOptions options;
  options.replay = !repeatable   ? Replay::kChecked
                   : *repeatable ? Replay::kPromised
                                 : Replay::kNever;
  if (memory) options.memory_bytes = *memory;
  options.accumulate = dtype_of(accumulate);
  const Unlocked working;
  require_room(model, x, x2.value_or(x), options.accumulate);
  return x2 ? kernel::empirical_ntk(model, x, *x2, options)
            : kernel::empirical_ntk(model, x, options);
}

/// Returns the result of a closure, which must be the same function at each call (kernel::watch).
py::object watch(const kernel::Model& model, const py::function& closure) {
  py::object result;
  kernel::watch(model, [&] { result = closure(); });
  return result;
}

std::string coverage(const kernel::Ntk& ntk) { return ntk.brief_report(); }

kernel::NtkOperator make_operator(const kernel::Model& model, const Tensor& x,
                                  std::optional<int64_t> memory) {
  kernel::OperatorOptions options;
  if (memory) options.memory_bytes = *memory;
  return {model, x, options};
}

/// Linearization for a module's samples; checks the memory before it forms kernels.
struct Linearized {
  Linearized(const kernel::Model& model_, const Tensor& x_, std::optional<int64_t> memory)
      : model(model_), x(x_) {
    kernel::NtkOptions options;
    if (memory) options.memory_bytes = *memory;
    network = kernel::linearize(model, x, options);
  }
  Tensor theta() const {
    require_room(model, x, x, torch::kFloat64);
    return network->kernel();
  }

  kernel::Model model;
  Tensor x;
  kernel::LinearizationPtr network;
};

dynamics::LeadingModes leading_modes(const kernel::NtkOperator& theta, int64_t modes,
                                     double tolerance, uint64_t seed) {
  dynamics::LanczosOptions options;
  options.modes = modes;
  options.tolerance = tolerance;
  options.seed = seed;
  options.trace = theta.trace();
  options.device = theta.outputs().device();
  options.rank_tolerance = tol::rank_of_computed(theta.size(), theta.outputs().scalar_type());
  return dynamics::leading_modes([&](const Tensor& X) { return theta.apply(X); }, theta.size(),
                                 options);
}

}  // namespace

void bind_kernel(py::module_& module) {
  py::class_<kernel::Model>(module, "Model", py::dynamic_attr())
      .def(py::init(&make_model), py::arg("forward"), py::arg("parameters"))
      .def_property_readonly("parameters", &kernel::Model::parameters)
      .def_property_readonly("parameter_count", &kernel::Model::parameter_count);

  py::class_<kernel::Ntk>(module, "Ntk")
      .def_readonly("theta", &kernel::Ntk::theta)
      .def_readonly("outputs", &kernel::Ntk::outputs)
      .def_readonly("self_check", &kernel::Ntk::self_check)
      .def("brief_report", &coverage);
  module.def("ntk", &ntk, py::arg("model"), py::arg("x"), py::arg("x2"), py::arg("memory"),
             py::arg("accumulate"), py::arg("repeatable"));

  py::class_<kernel::NtkOperator>(module, "NtkOperator")
      .def(py::init(&make_operator), py::arg("model"), py::arg("x"), py::arg("memory"),
           WithoutLock())
      .def_property_readonly("size", &kernel::NtkOperator::size)
      .def_property_readonly("outputs", &kernel::NtkOperator::outputs)
      .def("apply", &kernel::NtkOperator::apply, py::arg("V"), WithoutLock())
      .def("trace", &kernel::NtkOperator::trace, WithoutLock())
      .def("leading_modes", &leading_modes, py::arg("modes"), py::arg("tolerance"), py::arg("seed"),
           WithoutLock());
  py::class_<dynamics::LeadingModes>(module, "LeadingModes")
      .def_property_readonly("values",
                             [](const dynamics::LeadingModes& m) { return m.modes.values; })
      .def_property_readonly("vectors",
                             [](const dynamics::LeadingModes& m) { return m.modes.vectors; })
      .def_property_readonly("tail_bound",
                             [](const dynamics::LeadingModes& m) { return m.modes.tail_bound; })
      .def_readonly("converged", &dynamics::LeadingModes::converged)
      .def_readonly("products", &dynamics::LeadingModes::products);

  module.def("entries_share_memory", &kernel::entries_share_memory, py::arg("tensor"));
  module.def("watch", &watch, py::arg("model"), py::arg("closure"));
  module.def("vjp", &kernel::vector_jacobian_product, py::arg("model"), py::arg("x"), py::arg("v"),
             WithoutLock());
  module.def("jvp", &kernel::jacobian_vector_product, py::arg("model"), py::arg("x"), py::arg("u"),
             WithoutLock());

  py::class_<Linearized>(module, "Linearization")
      .def(py::init<const kernel::Model&, const Tensor&, std::optional<int64_t>>(),
           py::arg("model"), py::arg("x"), py::arg("memory"), WithoutLock())
      .def(
          "push_forward",
          [](const Linearized& self, const Tensor& U) { return self.network->push_forward(U); },
          py::arg("U"), WithoutLock())
      .def(
          "pull_back",
          [](const Linearized& self, const Tensor& V) { return self.network->pull_back(V); },
          py::arg("V"), WithoutLock())
      .def("kernel", &Linearized::theta, WithoutLock())
      .def(
          "gram",
          [](const Linearized& self, const std::optional<Tensor>& S) {
            return self.network->gram(S.value_or(Tensor()));
          },
          py::arg("S"), WithoutLock())
      .def(
          "trace", [](const Linearized& self) { return self.network->trace(); }, WithoutLock());

  py::class_<kernel::LocalModel>(module, "LocalModel")
      .def(py::init<kernel::Model, const Tensor&>(), py::arg("model"), py::arg("x"), WithoutLock())
      .def_property_readonly("outputs", &kernel::LocalModel::outputs)
      .def("displacement", &kernel::LocalModel::displacement, WithoutLock())
      .def("predict", py::overload_cast<const Tensor&>(&kernel::LocalModel::predict, py::const_),
           py::arg("displacement"), WithoutLock())
      .def("error", &kernel::LocalModel::error, WithoutLock());
}

}  // namespace cdt::python
