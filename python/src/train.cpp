/// The training loop, on a Python module's own parameters.
#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/kernel/step_engine.h>
#include <cdt/study/held_out.h>
#include <cdt/study/parts/scope.h>
#include <cdt/train/trainer.h>
#include <torch/csrc/autograd/python_variable.h>

#include "losses.h"

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;
using train::Trainer;
using train::TrainOptions;

namespace {

train::TrainData data_of(const Tensor& x, const Tensor& y, const std::optional<Tensor>& x_val,
                         const std::optional<Tensor>& y_val,
                         const std::optional<Tensor>& sample_weight,
                         const std::optional<Tensor>& output_weight) {
  train::TrainData data;
  data.x = x;
  data.y = y;
  if (x_val) data.x_val = *x_val;
  if (y_val) data.y_val = *y_val;
  if (sample_weight) data.sample_weights = *sample_weight;
  if (output_weight) data.output_weights = *output_weight;
  return data;
}

std::unique_ptr<Trainer> make_trainer(const kernel::Model& model, const Tensor& x, const Tensor& y,
                                      const std::optional<Tensor>& x_val,
                                      const std::optional<Tensor>& y_val,
                                      const std::optional<Tensor>& sample_weight,
                                      const std::optional<Tensor>& output_weight,
                                      const TrainOptions& options,
                                      const std::optional<int64_t>& residual_bytes) {
  std::shared_ptr<kernel::StepEngine> engine;
  if (residual_bytes) engine = std::make_shared<kernel::ResidualEngine>(model, *residual_bytes);
  auto data = data_of(x, y, x_val, y_val, sample_weight, output_weight);
  const Unlocked working;
  return std::make_unique<Trainer>(model, std::move(data), options, std::move(engine));
}

std::unique_ptr<study::HeldOutTrainer> make_held_out(const kernel::Model& model, const Tensor& x,
                                                     const Tensor& y,
                                                     const std::optional<Tensor>& sample_weight,
                                                     const std::optional<Tensor>& output_weight,
                                                     const TrainOptions& options, bool refit) {
  auto data = data_of(x, y, {}, {}, sample_weight, output_weight);
  const Unlocked working;
  return std::make_unique<study::HeldOutTrainer>(model, std::move(data), options, refit);
}

py::dict as_dict(const train::StepRecord& row) {
  py::dict fields;
  fields["step"] = row.step;
  fields["learning_rate"] = row.learning_rate;
  fields["train_loss"] = row.train_loss;
  fields["val_loss"] = row.val_loss;
  fields["augment_norm"] = row.augment_norm;
  fields["linearization_error"] = row.linearization_error;
  fields["refreshed"] = row.refreshed;
  fields["rejected"] = row.rejected;
  fields["seconds"] = row.seconds;
  fields["objective"] = row.objective;
  fields["decay"] = row.decay;
  fields["freedom"] = row.freedom;
  return fields;
}

py::list history_of(const train::TrainResult& result) {
  py::list rows;
  for (const train::StepRecord& row : result.history) rows.append(as_dict(row));
  return rows;
}

/// Takes one step; returns its record and, if the run is over, the reason.
py::tuple step(Trainer& trainer) {
  train::StepResult done;
  {
    const Unlocked working;
    done = trainer.step();
  }
  return py::make_tuple(as_dict(done.record),
                        done.outcome ? py::cast(train::to_string(*done.outcome)) : py::none());
}

/// Stops if `stop` is true, a signal raises, or `on_step` returns true, which sets `answered`.
train::TrainHooks hooks_for(const std::optional<py::function>& on_step, bool stop, bool looks,
                            bool& answered) {
  train::TrainHooks hooks;
  hooks.stop_requested = [&answered, stop] {
    if (!stop && !answered) check_signals();
    return stop || answered;
  };
  hooks.rows_may_lag = !looks;
  if (on_step) {
    hooks.on_step = [&answered, &on_step](const train::StepRecord& row) {
      const py::gil_scoped_acquire lock;
      const py::object answer = (*on_step)(as_dict(row));
      answered = answered || (!answer.is_none() && answer.cast<bool>());
    };
  }
  return hooks;
}

/// Runs to the end, until `stop` is true, or until a signal raises. `on_step` may return true to
/// stop, which has its own outcome. `looks`: it may read or change the model. The trainer defines
/// which functions observe its trainings, in order.
template <class AnyTrainer, class... OnStep>
train::TrainResult run(AnyTrainer& trainer, bool stop, bool looks, const OnStep&... on_step) {
  bool answered = false;
  const Unlocked working;
  train::TrainResult result = trainer.run(hooks_for(on_step, stop, looks, answered)...);
  if (answered && result.outcome == train::Outcome::kInterrupted) {
    result.outcome = train::Outcome::kStopped;
  }
  return result;
}
using OnStep = std::optional<py::function>;

py::tuple checkpoint(const Trainer& trainer) {
  const SafeTensors content = trainer.checkpoint();
  return py::make_tuple(content.tensors, content.metadata);
}

void restore(Trainer& trainer, std::map<std::string, Tensor> tensors,
             std::map<std::string, std::string> metadata) {
  trainer.restore({std::move(tensors), std::move(metadata)});
}

/// The first of these settings that training with these options would not use: its name, what it
/// requires ("" if that is another method), and the methods that use it.
std::optional<std::tuple<std::string, std::string, std::vector<std::string>>> unread_of(
    const TrainOptions& training, const std::vector<std::string>& names) {
  study::RunOptions options;
  options.training = training;
  const auto found = study::find_unread(options, names);
  if (!found) return std::nullopt;
  std::vector<std::string> methods;
  for (const train::Method& method : found->methods) methods.push_back(method.name());
  const std::string needs = methods.empty() ? study::scope_of(found->name).needs : "";
  return std::make_tuple(found->name, needs, methods);
}

/// The mean over samples of a Python function's values.
class PythonLoss : public loss::Loss {
 public:
  explicit PythonLoss(const py::function& values)
      : values_(shared_function(values)),
        name_("python:" +
              py::str(py::getattr(values, "__name__", py::str("loss"))).cast<std::string>()) {}

  std::string name() const override { return name_; }
  loss::Traits traits() const override { return {}; }
  double scale(int64_t samples, int64_t /*outputs*/) const override {
    return 1 / static_cast<double>(samples);
  }
  Tensor values(const Tensor& outputs, const Tensor& targets) const override {
    const py::gil_scoped_acquire lock;
    const py::object found = (*values_)(outputs, targets);
    CDT_REQUIRE(THPVariable_Check(found.ptr()), "the loss ", name_,
                " must return a tensor with a value for each sample");
    const auto each = found.cast<Tensor>();
    CDT_REQUIRE(each.dim() == 1 && each.size(0) == targets.size(0), "the loss ", name_,
                " must return a value for each of the ", targets.size(0), " samples, shape [",
                targets.size(0), "], got ", each.sizes());
    return each;
  }

 private:
  std::shared_ptr<py::function> values_;
  std::string name_;
};

/// Checksum of values, shape and dtype, to recognise data again.
std::string checksum_of(const Tensor& tensor) {
  const Tensor plain = tensor.detach().cpu().contiguous();
  Checksum sum;
  sum.add(c10::str(plain.sizes(), plain.scalar_type()));
  sum.add({static_cast<const char*>(plain.data_ptr()), plain.nbytes()});
  return sum.text();
}

}  // namespace

loss::LossPtr loss_of(const GivenLoss& given) {
  const auto* name = std::get_if<std::string>(&given);
  if (name != nullptr) return loss::parse(*name);
  return std::make_shared<PythonLoss>(std::get<py::function>(given));
}

void bind_train(py::module_& module) {
  py::class_<TrainOptions> options(module, "TrainOptions");
  options.def(py::init<>())
      .def_property(
          "method", [](const TrainOptions& o) { return o.method.name(); },
          [](TrainOptions& o, const std::string& name) { o.method = name; })
      .def_property(
          "loss", [](const TrainOptions& o) { return to_string(o.loss); },
          [](TrainOptions& o, const GivenLoss& given) { o.loss = loss_of(given); })
      .def_property(
          "schedule", [](const TrainOptions& o) { return train::to_string(o.schedule.kind); },
          [](TrainOptions& o, const std::string& name) {
            o.schedule.kind = train::parse_schedule(name);
          })
      .def_property(
          "relinearize",
          [](const TrainOptions& o) {
            return o.relinearize ? std::optional(train::to_string(*o.relinearize)) : std::nullopt;
          },
          [](TrainOptions& o, const std::optional<std::string>& text) {
            o.relinearize =
                text ? std::optional(train::parse_relinearization(*text)) : std::nullopt;
          })
      .def_property(
          "decay", [](const TrainOptions& o) { return o.schedule.decay; },
          [](TrainOptions& o, double decay) { o.schedule.decay = decay; })
      .def_property(
          "period", [](const TrainOptions& o) { return o.schedule.period; },
          [](TrainOptions& o, int64_t period) { o.schedule.period = period; })
      .def_readwrite("lr", &TrainOptions::learning_rate)
      .def_readwrite("p", &TrainOptions::p)
      .def_readwrite("q", &TrainOptions::q)
      .def_readwrite("controller", &TrainOptions::design)
      .def_readwrite("shape", &TrainOptions::shape)
      .def_readwrite("smoothing", &TrainOptions::smoothing)
      .def_readwrite("weight_decay", &TrainOptions::weight_decay)
      .def_readwrite("batch_size", &TrainOptions::batch)
      .def_readwrite("reshuffle", &TrainOptions::reshuffle)
      .def_readwrite("seed", &TrainOptions::seed)
      .def_readwrite("steps", &TrainOptions::steps)
      .def_readwrite("stop_loss", &TrainOptions::stop_loss)
      .def_readwrite("patience", &TrainOptions::patience)
      .def_readwrite("plateau", &TrainOptions::plateau)
      .def_readwrite("max_seconds", &TrainOptions::max_seconds)
      .def_readwrite("validate_every", &TrainOptions::validate_every)
      .def_readwrite("curvature_products", &TrainOptions::curvature_products)
      .def_readwrite("linearization_error", &TrainOptions::linearization_error)
      .def_readwrite("memory", &TrainOptions::memory_bytes)
      .def("require_valid", &train::require_valid)
      .def(
          "require_targets",
          [](const TrainOptions& o, const Tensor& y) {
            loss::require_targets(*o.loss, y, "training labels");
          },
          py::arg("y"))
      .def("unread", &unread_of, py::arg("names"));

  py::class_<train::TrainResult>(module, "TrainResult")
      .def_property_readonly(
          "outcome", [](const train::TrainResult& r) { return train::to_string(r.outcome); })
      .def_readonly("steps", &train::TrainResult::steps)
      .def_readonly("train_loss", &train::TrainResult::train_loss)
      .def_readonly("val_loss", &train::TrainResult::val_loss)
      .def_readonly("best_step", &train::TrainResult::best_step)
      .def_readonly("best_val_loss", &train::TrainResult::best_val_loss)
      .def_readonly("linearizations", &train::TrainResult::linearizations)
      .def_readonly("rejected", &train::TrainResult::rejected)
      .def_readonly("learning_rate", &train::TrainResult::learning_rate)
      .def_readonly("seconds", &train::TrainResult::seconds)
      .def_property_readonly("history", &history_of)
      .def("in_words", &train::TrainResult::in_words);

  py::class_<Trainer>(module, "Trainer")
      .def(py::init(&make_trainer), py::arg("model"), py::arg("x"), py::arg("y"), py::arg("x_val"),
           py::arg("y_val"), py::arg("sample_weight"), py::arg("output_weight"), py::arg("options"),
           py::arg("residual_bytes"))
      .def("step", &step)
      .def("look_again", &Trainer::look_again)
      .def("run", &run<Trainer, OnStep>, py::arg("stop"), py::arg("looks"), py::arg("on_step"))
      .def("checkpoint", &checkpoint)
      .def("restore", &restore, py::arg("tensors"), py::arg("metadata"));

  py::class_<study::HeldOutTrainer>(module, "HeldOutTrainer")
      .def(py::init(&make_held_out), py::arg("model"), py::arg("x"), py::arg("y"),
           py::arg("sample_weight"), py::arg("output_weight"), py::arg("options"), py::arg("refit"))
      .def("run", &run<study::HeldOutTrainer, OnStep, OnStep>, py::arg("stop"), py::arg("looks"),
           py::arg("on_step"), py::arg("on_refit"));

  module.def("method_names", &train::Method::names);
  module.def("checksum", &checksum_of, py::arg("tensor"), WithoutLock());
}

}  // namespace cdt::python
