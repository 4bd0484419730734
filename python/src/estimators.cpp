/// The library's part of estimators and loaded runs: tables, models that predict, learning.
#include "interruptible.h"
#include "pictures.h"
// Python headers come first, as they require

#include <cdt/core/error.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/data/csv/column_builder.h>
#include <cdt/nn/mlp.h>
#include <cdt/run/folder.h>
#include <cdt/run/settings.h>
#include <cdt/study/pipeline.h>
#include <pybind11/numpy.h>

#include <mutex>

namespace cdt::python {
namespace py = pybind11;
using torch::Tensor;

namespace {

using Numbers = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Codes = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;

/// Fewer rows than this are predicted at once, on the calling thread.
constexpr int64_t kFewRows = 4096;

template <class Array>
auto values_of(const Array& array, const std::string& name, size_t rows) {
  CDT_REQUIRE(array.ndim() == 1 && static_cast<size_t>(array.size()) == rows, "column ",
              data::in_quotes(name), ": expected ", rows, " values, got ", array.size());
  return std::vector(array.data(), array.data() + array.size());
}

/// Makes a table to which columns of `rows` rows are added one by one.
std::shared_ptr<data::Table> make_table(const std::string& source, int64_t rows) {
  CDT_REQUIRE(rows >= 0, "expected 0 rows or more, got ", rows);
  auto table = std::make_shared<data::Table>();
  table->source = source;
  table->lines.resize(static_cast<size_t>(rows));
  for (size_t i = 0; i < table->lines.size(); ++i) table->lines[i] = static_cast<int64_t>(i + 1);
  return table;
}

void add_column(data::Table& table, data::Column column) {
  CDT_REQUIRE(table.find(column.name) == nullptr, table.source,
              ": expected names that differ, got ", data::in_quotes(column.name), " twice");
  table.columns.push_back(std::move(column));
}

void add_numbers(data::Table& table, const std::string& name, const Numbers& numbers) {
  data::Column column;
  column.name = name;
  column.numbers = values_of(numbers, name, table.lines.size());
  for (size_t i = 0; i < column.numbers.size(); ++i) {
    CDT_REQUIRE(!std::isinf(column.numbers[i]), table.source, ", row ", i, ": column ",
                data::in_quotes(name), " must not be infinite");
  }
  add_column(table, std::move(column));
}

/// `decide`: whether texts that are formatted numbers become numbers.
void add_texts(data::Table& table, const std::string& name, const Codes& codes,
               const std::vector<std::string>& categories, bool decide) {
  data::Column column;
  column.name = name;
  column.type = data::ColumnType::kText;
  column.codes = values_of(codes, name, table.lines.size());
  column.categories = categories;
  for (size_t i = 1; i < categories.size(); ++i) {
    CDT_REQUIRE(categories[i - 1] < categories[i], "column ", data::in_quotes(name),
                ": expected categories in order");
  }
  for (const int32_t code : column.codes) {
    CDT_REQUIRE(code >= -1 && code < static_cast<int64_t>(categories.size()), "column ",
                data::in_quotes(name), ": there is no category ", code);
  }
  if (decide) data::understand(column);
  add_column(table, std::move(column));
}

/// A model that predicts in float64, whatever its training dtype, so that predictions do not depend
/// on which rows are requested together, except in the last bits of float64. (Pictures use the
/// training precision, as in the program: float64 takes several times as long.) Immutable after
/// construction.
struct Trained {
  study::TrainedModel model;
  torch::ScalarType dtype = torch::kFloat32;  ///< dtype of training, in which it is saved

  explicit Trained(study::TrainedModel found) : model(std::move(found)) {
    dtype = model.predictor.members.at(0)->dtype();
    for (const nn::Network& member : model.predictor.members) {
      member->to(torch::kCPU);
      if (!model.preprocess.pictures) member->to(torch::kFloat64);
    }
  }
};
using TrainedPtr = std::shared_ptr<const Trained>;
using TablePtr = std::shared_ptr<const data::Table>;

/// Metadata key of the checksum over all other content; earlier versions wrote none.
constexpr const char* kChecksum = "checksum";

py::bytes to_bytes(const Trained& trained) {
  SafeTensors content = study::to_safetensors(trained.model);
  for (auto& [name, tensor] : content.tensors) {
    if (name.starts_with('m')) tensor = tensor.to(trained.dtype);  // of a member: exact
  }
  content.metadata[kChecksum] = checksum(dump_safetensors(content, "a model"));
  return dump_safetensors(content, "a model");
}

std::shared_ptr<Trained> from_bytes(const py::bytes& bytes) {
  const std::string source = "the saved model";
  SafeTensors content = parse_safetensors(std::string_view(bytes), source);
  if (const auto seal = content.metadata.extract(kChecksum); !seal.empty()) {
    const std::string came = checksum(dump_safetensors(content, source));
    CDT_REQUIRE(came == seal.mapped(), source, " is damaged: expected the checksum ", seal.mapped(),
                ", got ", came);
  }
  return std::make_shared<Trained>(study::parse_trained_model(content, source));
}

std::shared_ptr<Trained> load_run(const std::string& path) {
  const py::gil_scoped_release unlocked;
  const run::RunFolder folder(path);
  return std::make_shared<Trained>(
      run::load_trained(folder, torch::kCPU, path_exists(folder.intervals())));
}

/// Applies `of` to blocks of rows and concatenates each of its tensors. Intervals take all rows as
/// one block, because their factorization is the same for each block.
using Parts = std::vector<Tensor>;
Parts by_blocks(const TrainedPtr& trained, const TablePtr& table, int threads,
                std::function<Parts(const data::TableSamples&)> of, int64_t block = kFewRows) {
  auto found = std::make_shared<std::vector<Parts>>();
  const StopFlag stop = std::make_shared<std::atomic<bool>>(false);
  const auto work = [=] {
    const torch::NoGradGuard no_graph;
    int64_t first = 0;
    do {
      std::vector<int64_t> rows;
      for (int64_t row = first; row < std::min(first + block, table->rows()); ++row) {
        rows.push_back(row);
      }
      found->push_back(of(data::TableSamples(*table, trained->model.preprocess, rows,
                                             data::TableSamples::Labels::kNone)));
      first += block;
    } while (first < table->rows() && !*stop);
  };
  if (table->rows() <= kFewRows && block == kFewRows) {
    const py::gil_scoped_release unlocked;
    work();
  } else {
    run_interruptibly(stop, threads, work);
  }
  const py::gil_scoped_release unlocked;
  Parts joined;
  for (size_t i = 0; i < found->front().size(); ++i) {
    std::vector<Tensor> parts;
    for (const Parts& each : *found) parts.push_back(each[i]);
    joined.push_back(torch::cat(parts));
  }
  return joined;
}

Tensor encode(const TrainedPtr& trained, const TablePtr& table, int threads) {
  return by_blocks(trained, table, threads,
                   [](const data::TableSamples& samples) { return Parts{samples.all().x}; })[0];
}

Tensor predict(const TrainedPtr& trained, const TablePtr& table, int threads) {
  return by_blocks(trained, table, threads, [=](const data::TableSamples& samples) {
    return Parts{study::predict_targets(trained->model.predictor, trained->model.preprocess,
                                        samples, table->source)};
  })[0];
}

const study::Intervals& intervals_of(const Trained& trained) {
  CDT_REQUIRE(trained.model.intervals,
              "there are no intervals: the model was trained without them, or for classes");
  return *trained.model.intervals;
}

std::pair<Tensor, Tensor> bounds(const TrainedPtr& trained, const TablePtr& table, double coverage,
                                 int threads) {
  intervals_of(*trained);
  const Parts found = by_blocks(
      trained, table, threads,
      [=](const data::TableSamples& samples) {
        const study::TrainedModel& model = trained->model;
        const study::Bounds around =
            study::bounds_of(*model.intervals, model.predictor, model.preprocess, samples.all().x,
                             coverage, model.preprocess.unfamiliar(*table, samples.rows()));
        return Parts{around.low, around.high};
      },
      /*block=*/table->rows());
  return {found[0], found[1]};
}

Tensor deviations(const TrainedPtr& trained, const TablePtr& table, int threads) {
  intervals_of(*trained);
  return by_blocks(
      trained, table, threads,
      [=](const data::TableSamples& samples) {
        const study::TrainedModel& model = trained->model;
        return Parts{study::deviations_of(*model.intervals, model.predictor, model.preprocess,
                                          samples.all().x,
                                          model.preprocess.unfamiliar(*table, samples.rows()))};
      },
      /*block=*/table->rows())[0];
}

py::list columns_of(const Trained& trained) {
  py::list columns;
  std::string last;
  for (const data::FeatureColumn& feature : trained.model.preprocess.features) {
    if (feature.name == last) continue;  // another part of the same date
    last = feature.name;
    columns.append(py::make_tuple(feature.name, feature.type == data::ColumnType::kText));
  }
  return columns;
}

/// The numbers that these texts represent in a numeric column, as in training; NaN for other texts.
std::vector<double> numbers_of(const Trained& trained, const std::string& name,
                               const std::vector<std::string>& texts) {
  data::NumberFormat format;
  for (const data::FeatureColumn& feature : trained.model.preprocess.features) {
    if (feature.name == name && feature.format) format = *feature.format;
  }
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    numbers.push_back(data::parse_number(text, format).value_or(NAN));
  }
  return numbers;
}

py::list targets_of(const Trained& trained) {
  py::list targets;
  const auto& predictor = trained.model.predictor;
  for (size_t t = 0; t < trained.model.preprocess.targets.size(); ++t) {
    const data::TargetColumn& target = trained.model.preprocess.targets[t];
    const study::TargetCalibration held =
        t < predictor.targets.size() ? predictor.targets[t] : study::TargetCalibration();
    py::dict each;
    each["name"] = target.name;
    each["offset"] = target.scale.offset;
    each["scale"] = target.scale.scale;
    each["log"] = target.log;
    each["low"] = held.low;
    each["high"] = held.high;
    each["factor"] = held.factor;
    each["line"] = held.line;
    targets.append(each);
  }
  return targets;
}

/// For each member, its activation and its layers: weight, bias or None, and the factors of both;
/// for picture networks, a description.
py::list members_of(const Trained& trained) {
  py::list members;
  for (const nn::Network& member : trained.model.predictor.members) {
    const auto mlp = member.as<nn::MlpImpl>();
    if (!mlp) {
      members.append(describe_network(member, trained.dtype));
      continue;
    }
    py::list layers;
    for (size_t layer = 0; layer < mlp->depth(); ++layer) {
      const auto copy = [&](const Tensor& tensor) -> py::object {
        if (!tensor.defined()) return py::none();
        return py::cast(tensor.detach().to(trained.dtype).clone());
      };
      const nn::LayerScaling& scaling = mlp->scaling(layer);
      layers.append(py::make_tuple(copy(mlp->weight(layer)), copy(mlp->bias(layer)),
                                   scaling.weight_factor, scaling.bias_factor));
    }
    members.append(py::make_tuple(nn::to_string(mlp->options().activation), layers));
  }
  return members;
}

py::list unknown_of(const Trained& trained, const data::Table& table) {
  py::list found;
  for (const data::UnknownTexts& each : trained.model.preprocess.unknown_values(table)) {
    found.append(py::make_tuple(each.column, each.rows, data::to_text(each)));
  }
  return found;
}

py::dict expectation_of(const study::Expectation& e) {
  py::dict found;
  found["target"] = e.target;
  found["rows"] = e.rows;
  found["different_rows"] = e.different;
  found["text"] = study::to_text(e);
  if (std::isnan(e.majority_wrong)) {
    found["rmse"] = e.rmse.value;
    found["rmse_error"] = e.rmse.error;
    found["r2"] = e.r2;
    found["mean_rmse"] = e.mean_rmse;
    found["linear_rmse"] = e.linear_rmse;
  } else {
    found["wrong"] = e.wrong.value;
    found["wrong_error"] = e.wrong.error;
    found["log_loss"] = e.log_loss.value;
    found["log_loss_error"] = e.log_loss.error;
    found["majority_wrong"] = e.majority_wrong;
  }
  if (e.later) {
    py::dict later;
    later["by"] = e.later->by;
    later["rows"] = e.later->rows;
    later["error"] = e.later->error.value;
    later["error_error"] = e.later->error.error;
    later["r2"] = e.later->r2;
    found["later"] = later;
  }
  return found;
}

/// Passes progress points from the learning thread to the thread that may call Python.
struct Progress {
  struct Point {
    bool refit;
    int64_t point, of;
    double loss;
  };
  std::mutex mutex;
  std::vector<Point> points;

  std::vector<Point> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(points, {});
  }
};

/// Learns to predict. Settings are those of `cdt train`, by name; `progress` is called with (refit,
/// point, maximum, held-out loss). If interrupted, raises the exception of the interruption.
py::dict learn(const TablePtr& table,
               const std::vector<std::pair<std::string, std::vector<std::string>>>& settings,
               int threads, const std::optional<py::function>& progress) {
  run::Settings named;
  for (const auto& [name, values] : settings) named.push_back({name, values});
  run::Options options;
  run::apply(named, options);
  auto seen = std::make_shared<Progress>();
  const StopFlag stop = std::make_shared<std::atomic<bool>>(false);
  auto learned = std::make_shared<study::Run>();
  const auto work = [=] {
    study::Hooks hooks;
    hooks.stop_requested = [stop] { return stop->load(); };
    hooks.on_point = [seen](study::LearnStage stage, const train::StepRecord& row, int64_t of) {
      const std::lock_guard lock(seen->mutex);
      seen->points.push_back({stage == study::LearnStage::kRefit, row.step, of, row.val_loss});
    };
    *learned = study::learn(*table, options, hooks);
  };
  run_interruptibly(stop, threads, work, [&] {
    for (const Progress::Point& each : seen->take()) {
      if (progress) (*progress)(each.refit, each.point, each.of, each.loss);
    }
  });
  py::dict found;
  found["model"] = std::make_shared<Trained>(learned->model());
  found["notes"] = learned->notes;
  py::list choices;
  for (const study::Choice& each : learned->decision.choices) {
    py::dict choice;
    choice["setting"] = each.setting;
    choice["value"] = each.value;
    choice["by"] = to_string(each.by);
    choice["why"] = each.why;
    choices.append(choice);
  }
  found["choices"] = choices;
  found["members"] = learned->learned->members;
  found["points"] = learned->result.best_step;
  found["seconds"] = learned->result.seconds;
  py::list expected;
  for (const study::Expectation& each : learned->record.prediction->expected)
    expected.append(expectation_of(each));
  found["expected"] = expected;
  py::list curve;  // held-out loss by point
  for (const train::StepRecord& row : learned->result.history) curve.append(row.val_loss);
  found["held_out_loss"] = curve;
  return found;
}

}  // namespace

void bind_estimators(py::module_& module) {
  py::class_<data::Table, std::shared_ptr<data::Table>>(module, "Table")
      .def(py::init(&make_table), py::arg("source"), py::arg("rows"))
      .def("add_numbers", &add_numbers, py::arg("name"), py::arg("numbers"))
      .def("add_texts", &add_texts, py::arg("name"), py::arg("codes"), py::arg("categories"),
           py::arg("decide") = false)
      .def_property_readonly("rows", &data::Table::rows)
      .def_property_readonly("warnings",
                             [](const data::Table& table) { return data::warnings_of(table); })
      .def_property_readonly("names", &picture_names)
      .def("pictures", &all_pictures);
  module.def(
      "mean_of",
      [](const std::string& loss, const Tensor& outputs) {
        return loss::parse(loss)->mean(outputs);
      },
      py::arg("loss"), py::arg("outputs"));
  module.def("picture_table", &picture_table, py::arg("path"), py::arg("shape"));
  module.def("tensor_table", &tensor_table, py::arg("x"));
  const auto has_intervals = [](const Trained& t) { return t.model.intervals.has_value(); };
  py::class_<Trained, std::shared_ptr<Trained>>(module, "Trained")
      .def("encode", &encode, py::arg("table"), py::arg("threads"))
      .def("predict", &predict, py::arg("table"), py::arg("threads"))
      .def("bounds", &bounds, py::arg("table"), py::arg("coverage"), py::arg("threads"))
      .def("deviations", &deviations, py::arg("table"), py::arg("threads"))
      .def("unknown", &unknown_of, py::arg("table"))
      .def("numbers", &numbers_of, py::arg("name"), py::arg("texts"))
      .def("members", &members_of)
      .def("targets", &targets_of)
      .def_property_readonly("columns", &columns_of)
      .def_property_readonly("classes",
                             [](const Trained& t) {
                               return t.model.preprocess.has_classes()
                                          ? t.model.preprocess.classes()
                                          : std::vector<std::string>();
                             })
      .def_property_readonly("has_intervals", has_intervals)
      .def_property_readonly("squares",
                             [](const Trained& t) { return t.model.preprocess.targets[0].squares; })
      .def_property_readonly("pictures",
                             [](const Trained& t) { return picture_features(t.model.preprocess); })
      .def_property_readonly("loss",  // if outputs are not the predictions
                             [](const Trained& t) -> std::optional<std::string> {
                               const loss::LossPtr& loss = t.model.predictor.loss;
                               if (!loss || !loss->traits().keeps_units) return std::nullopt;
                               return loss->name();
                             })
      .def_property_readonly("temperature",
                             [](const Trained& t) { return t.model.predictor.temperature; })
      .def_property_readonly(
          "dtype",
          [](const Trained& t) {
            return py::module_::import("torch").attr(study::dtype_name(t.dtype).c_str());
          })
      .def_property_readonly("notes", [](const Trained& t) { return t.model.preprocess.notes; })
      .def_property_readonly("features",
                             [](const Trained& t) { return t.model.preprocess.feature_names(); })
      .def(py::pickle(&to_bytes, &from_bytes));
  module.def("learn", &learn, py::arg("table"), py::arg("settings"), py::arg("threads"),
             py::arg("progress"));
  module.def("load_run", &load_run, py::arg("path"));
  module.def("list_nearest", &data::list_nearest, py::arg("names"), py::arg("name"));
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    const py::gil_scoped_release unlocked;
    join_abandoned();
  }));
}

}  // namespace cdt::python
