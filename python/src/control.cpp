/// Analysis, controllers, forecasts.
#include "interruptible.h"
// Python first, as its headers want it
#include <cdt/analysis/preflight.h>
#include <cdt/control/forecast.h>
#include <cdt/control/riccati.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/kernel/ntk.h>
#include <cdt/study/examine.h>
#include <cdt/train/model_controller.h>

#include "losses.h"

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;

namespace {

/// The result as text and JSON, and the spectrum.
struct Analysis {
  std::string text;
  std::string json;
  Tensor eigenvalues;
};

Analysis as_analysis(const analysis::Preflight& found) {
  return {to_text(found), to_json(found), found.plant->modes().values};
}

train::TrainData data_of(const Tensor& x, const Tensor& y, const std::optional<Tensor>& x_val,
                         const std::optional<Tensor>& y_val) {
  train::TrainData data;
  data.x = x;
  data.y = y;
  if (x_val) data.x_val = *x_val;
  if (y_val) data.y_val = *y_val;
  return data;
}

/// ε for class labels; other losses have none.
double smoothing_of(const loss::LossPtr& loss, std::optional<double> given) {
  CDT_REQUIRE(!given || loss->classes(), "smoothing belongs to cross-entropy, not to ",
              to_string(loss));
  return given.value_or(loss::kUsualSmoothing);
}

Analysis analyze(const kernel::Model& model, const Tensor& x, const Tensor& y,
                 const std::optional<Tensor>& x_val, const std::optional<Tensor>& y_val,
                 const GivenLoss& loss, std::optional<double> lr, double p, double q,
                 int64_t trial_steps, std::optional<double> smoothing,
                 std::optional<int64_t> memory, std::optional<int64_t> curvature_products,
                 const std::string& controller) {
  study::AnalysisOptions options;
  options.design = controller;
  options.loss = loss_of(loss);
  options.smoothing = smoothing_of(options.loss, smoothing);
  options.learning_rate = lr;
  options.p = p;
  options.q = q;
  options.trial_steps = trial_steps;
  options.forecast = x_val.has_value();
  if (memory) options.memory_bytes = *memory;
  if (curvature_products) options.curvature_products = *curvature_products;
  train::TrainOptions plain;
  plain.method = "adam";  // has no requirements on the loss
  plain.loss = options.loss;
  train::TrainData data;
  kernel::Ntk start;
  {
    const Unlocked working;
    data = train::prepare(data_of(x, y, x_val, y_val), model, plain);
    start = study::start_kernel(model, data, options);
    if (options.forecast || trial_steps > 0) {  // these evaluate the model again
      return as_analysis(study::analyze(model, start, data, options));
    }
  }
  return decompose_interruptibly(
      start.theta, [=] { return as_analysis(study::analyze(model, start, data, options)); });
}

/// Analyses a given kernel: Θ in float64, from a matrix that had `precision`.
Analysis analyze_kernel(const Tensor& theta, const std::optional<Tensor>& y,
                        const std::optional<Tensor>& outputs, const std::string& loss,
                        std::optional<double> lr, double p, double q, bool single,
                        const std::string& controller) {
  const auto precision = single ? torch::kFloat32 : torch::kFloat64;
  const dynamics::Modes modes =
      dynamics::decompose(theta, tol::rank_of_stored(theta.size(0), precision), precision);
  analysis::PreflightOptions options;
  options.loss = loss::parse(loss);
  loss::require_quadratic(*options.loss, "the analysis of a kernel alone");
  const double factor = loss::gradient_factor(options.loss, modes.size());
  options.learning_rate = lr.value_or(train::start_rate("gd", dynamics::unit_rate(modes, factor)));
  options.q = q;
  options.rho = p;
  options.design = controller;
  options.labels = y;
  options.outputs = outputs;
  const auto has_columns = [](const std::optional<Tensor>& values) {
    return values && values->dim() == 2;
  };
  if (!has_columns(y) && !has_columns(outputs)) options.outputs_per_sample = 1;
  options.residual = true;
  return as_analysis(analysis::analyze(theta, modes, options));
}

/// A Python function that threads may copy and destroy without the interpreter lock.
std::shared_ptr<py::object> held(const py::object& function) {
  return {new py::object(function), [](py::object* own) {
            const py::gil_scoped_acquire lock;
            delete own;
          }};
}

std::shared_ptr<train::ModelController> make_controller(
    const kernel::Model& model, const Tensor& x, const Tensor& y, const std::string& loss,
    double lr, double p, double q, const std::optional<Tensor>& Q, const std::optional<Tensor>& R,
    const std::optional<Tensor>& gain, const py::object& law, std::optional<double> smoothing,
    std::optional<double> refresh_above, std::optional<int64_t> memory, const std::string& design) {
  train::ModelControllerOptions options;
  options.design = design;
  options.learning_rate = lr;
  options.loss = loss::parse(loss);
  options.q = q;
  options.p = p;
  options.Q = Q;
  options.R = R;
  if (gain) {
    options.controller = [K = *gain](const control::Plant& plant) {
      return control::from_gain(plant, K);
    };
  } else if (!law.is_none()) {
    options.controller = [own = held(law)](const control::Plant& plant) {
      return control::from_function(plant, [own](const Tensor& e) {
        const py::gil_scoped_acquire lock;
        return (*own)(e).cast<Tensor>();
      });
    };
  }
  options.smoothing = smoothing;
  options.refresh_above = refresh_above;
  if (memory) options.memory_bytes = *memory;
  const Unlocked working;
  return std::make_shared<train::ModelController>(model, x, y, options);
}

control::RiccatiSolution dare(const Tensor& A, const Tensor& B, const Tensor& Q, const Tensor& R,
                              bool augmented) {
  return augmented ? control::solve_augmented_riccati(A, B, Q, R)
                   : control::solve_riccati(A, B, Q, R);
}

/// Wraps a function of a matrix [n, n] and more; it runs on copies of its arguments.
template <auto function>
auto interruptibly() {
  return []<class Result, class... Rest>(Result (*)(const Tensor&, Rest...)) {
    return [](const Tensor& matrix, std::decay_t<Rest>... rest) {
      return decompose_interruptibly(matrix, [=] { return function(matrix, rest...); });
    };
  }(function);
}

control::Forecast forecast(const kernel::Model& model, const Tensor& x, const Tensor& y,
                           const Tensor& x_val, const Tensor& y_val, const std::string& loss,
                           const std::vector<double>& lr, const std::vector<double>& p, double q,
                           const std::vector<int64_t>& steps, double decay,
                           std::optional<int64_t> memory) {
  train::TrainOptions plain;
  plain.method = "adam";
  plain.loss = loss::parse(loss);
  loss::require_quadratic(*plain.loss, "a forecast");
  const auto data = train::prepare(data_of(x, y, x_val, y_val), model, plain);
  kernel::NtkOptions ntk;
  if (memory) ntk.memory_bytes = *memory;
  const auto kernel = kernel::empirical_ntk(model, data.x, ntk);
  const auto cross = kernel::empirical_ntk(model, data.x_val, data.x, ntk);
  const auto error = [](const kernel::Ntk& found, const Tensor& labels) {
    return found.outputs.to(torch::kFloat64).reshape({-1}) - labels.reshape({-1});
  };
  const auto modes = dynamics::decompose(
      kernel.theta, tol::rank_of_computed(kernel.theta.size(0), kernel.network_dtype));
  const auto problem =
      dynamics::modal_problem(modes, error(kernel, data.y), cross.theta, error(cross, data.y_val));
  control::ForecastOptions options;
  options.learning_rates = lr;
  options.weights = p;
  options.q = q;
  options.steps = steps;
  options.decay = decay;
  return control::forecast(problem, plain.loss, options);
}

py::object point(const std::optional<control::ForecastPoint>& found) {
  if (!found) return py::none();
  py::dict fields;
  fields["method"] = found->method();
  fields["lr"] = found->candidate.learning_rate;
  fields["p"] = found->candidate.controlled ? py::cast(found->candidate.p) : py::none();
  fields["step"] = found->step;
  fields["train_loss"] = found->train_loss;
  fields["val_loss"] = found->validation_loss;
  return fields;
}

py::list candidates(const control::Forecast& forecast) {
  py::list all;
  for (const control::Candidate& candidate : forecast.candidates) {
    py::dict fields;
    fields["method"] = candidate.controlled ? "cdt" : "gd";
    fields["lr"] = candidate.learning_rate;
    fields["p"] = candidate.controlled ? py::cast(candidate.p) : py::none();
    all.append(fields);
  }
  return all;
}

}  // namespace

void bind_control(py::module_& module) {
  py::class_<control::RiccatiSolution>(module, "RiccatiSolution")
      .def_readonly("P", &control::RiccatiSolution::P)
      .def_readonly("K", &control::RiccatiSolution::K)
      .def_readonly("relative_residual", &control::RiccatiSolution::relative_residual)
      .def_readonly("closed_loop_radius", &control::RiccatiSolution::closed_loop_radius)
      .def_readonly("iterations", &control::RiccatiSolution::iterations)
      .def_property_readonly("equilibrium",
                             [](const control::RiccatiSolution& solution) -> py::object {
                               if (!solution.equilibrium.defined()) return py::none();
                               return py::cast(solution.equilibrium);
                             })
      .def(
          "optimal_cost",
          [](const control::RiccatiSolution& solution, const py::object& x) {
            const auto torch = py::module_::import("torch");
            py::object wide;
            try {
              wide = torch.attr("as_tensor")(x, py::arg("dtype") = torch.attr("float64"));
            } catch (const PythonError&) {
              throw InvalidArgument(c10::str("x must be ", solution.P.size(0), " numbers, got a ",
                                             Py_TYPE(x.ptr())->tp_name));
            }
            return solution.optimal_cost(wide.cast<Tensor>().detach());
          },
          py::arg("x"));
  module.def("dare", interruptibly<dare>(), py::arg("A"), py::arg("B"), py::arg("Q"), py::arg("R"),
             py::arg("augmented"));

  py::class_<Analysis>(module, "Analysis")
      .def_readonly("text", &Analysis::text)
      .def_readonly("json", &Analysis::json)
      .def_readonly("eigenvalues", &Analysis::eigenvalues);
  module.def("analyze", &analyze, py::arg("model"), py::arg("x"), py::arg("y"), py::arg("x_val"),
             py::arg("y_val"), py::arg("loss"), py::arg("lr"), py::arg("p"), py::arg("q"),
             py::arg("trial_steps"), py::arg("smoothing"), py::arg("memory"),
             py::arg("curvature_products"), py::arg("controller"));
  module.def("analyze_kernel", interruptibly<analyze_kernel>(), py::arg("theta"), py::arg("y"),
             py::arg("outputs"), py::arg("loss"), py::arg("lr"), py::arg("p"), py::arg("q"),
             py::arg("single"), py::arg("controller"));

  using train::ModelController;
  py::class_<ModelController, std::shared_ptr<ModelController>>(module, "ModelController")
      .def(py::init(&make_controller), py::arg("model"), py::arg("x"), py::arg("y"),
           py::arg("loss"), py::arg("lr"), py::arg("p"), py::arg("q"), py::arg("Q"), py::arg("R"),
           py::arg("gain"), py::arg("law"), py::arg("smoothing"), py::arg("refresh_above"),
           py::arg("memory"), py::arg("design"))
      .def("augment", &ModelController::augment, py::arg("y_hat"), WithoutLock())
      .def("refresh", &ModelController::refresh, WithoutLock())
      .def("set_lr", &ModelController::set_learning_rate, py::arg("lr"), WithoutLock())
      .def_property_readonly("lr", &ModelController::learning_rate)
      .def_property_readonly("drift", &ModelController::drift)
      .def_property_readonly("warning", &ModelController::warning)
      .def_property_readonly("refreshes", &ModelController::refreshes)
      .def_property_readonly("gain", &ModelController::gain)
      .def_property_readonly("kernel", &ModelController::kernel)
      .def_property_readonly("closed_loop_radius", &ModelController::closed_loop_radius)
      .def_property_readonly("certificate", [](const ModelController& controller) {
        const control::Certificate found = controller.certificate();
        const auto known = [](const control::Known& number) -> py::object {
          if (number.exact()) return py::cast(number.value);
          if (!number.bounded()) return py::none();
          return py::make_tuple(number.lower, number.upper);
        };
        const auto given = [](double value) -> py::object {
          return std::isnan(value) ? py::none() : py::object(py::cast(value));
        };
        py::dict fields;
        fields["controller"] = found.controller;
        fields["makes_least"] =
            found.optimal.empty() ? py::none() : py::object(py::cast(found.optimal));
        fields["closed_loop_radius"] = known(found.radius);
        fields["riccati_residual"] = given(found.residual);
        fields["kernel_margin"] = known(found.kernel_margin);
        fields["overshoot_margin"] = known(found.overshoot_margin);
        fields["gain_margin"] = known(found.gain_margin);
        fields["digest"] = found.digest;
        return fields;
      });

  py::class_<control::Forecast>(module, "Forecast")
      .def_property_readonly("candidates", &candidates)
      .def_readonly("steps", &control::Forecast::steps)
      .def_property_readonly("train_loss",
                             [](const control::Forecast& f) { return f.curves.train; })
      .def_property_readonly("val_loss",
                             [](const control::Forecast& f) { return f.curves.validation; })
      .def_property_readonly("best", [](const control::Forecast& f) { return point(f.best); })
      .def_property_readonly("best_descent",
                             [](const control::Forecast& f) { return point(f.best_descent); })
      .def_property_readonly("best_controlled",
                             [](const control::Forecast& f) { return point(f.best_controlled); });
  module.def("forecast", &forecast, py::arg("model"), py::arg("x"), py::arg("y"), py::arg("x_val"),
             py::arg("y_val"), py::arg("loss"), py::arg("lr"), py::arg("p"), py::arg("q"),
             py::arg("steps"), py::arg("decay"), py::arg("memory"), WithoutLock());
}

}  // namespace cdt::python
