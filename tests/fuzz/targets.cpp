#include "fuzz/targets.h"

#include <cdt/core/error.h>
#include <cdt/core/npy.h>
#include <cdt/core/safetensors.h>
#include <cdt/data/csv.h>
#include <cdt/data/numpy/npz.h>
#include <cdt/data/preprocess.h>
#include <cdt/data/rows/describe.h>
#include <cdt/experiment/parts/file.h>
#include <cdt/experiment/results_file.h>
#include <cdt/experiment/store.h>
#include <cdt/image/formats/idx.h>
#include <cdt/image/picture.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/mlp.h>
#include <cdt/nn/saved_model.h>
#include <cdt/report/page.h>
#include <cdt/report/run_page.h>
#include <cdt/run/parts/tables.h>
#include <cdt/study/learn.h>
#include <cdt/study/trained_model.h>
#include <cdt/train/trainer.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cli/toml_file.h"
#include "experiment/sample_plan.h"
#include "experiments/claims.h"

namespace cdt::fuzz {
namespace {

constexpr const char* kFile = "file";

/// What the program has written itself it must read: a refusal is a finding.
template <class Read>
void read_again(const Read& read) {
  try {
    read();
  } catch (const InvalidArgument& error) {
    throw std::logic_error(c10::str("written, but not read again: ", error.what()));
  }
}

void read_npy(std::string_view bytes) { parse_npy(bytes, kFile).sum(); }

void read_npz(std::string_view bytes) {
  const data::Npz archive({std::make_shared<std::string>(bytes), bytes}, kFile);
  for (const std::string& name : archive.names()) npy_layout(archive.array(name).view, kFile);
}

void read_safetensors(std::string_view bytes) { parse_safetensors(bytes, kFile); }

void read_model(std::string_view bytes) {
  const nn::Network network = nn::parse_model(parse_safetensors(bytes, kFile), kFile);
  std::vector<int64_t> shape = network->input_shape();
  shape.insert(shape.begin(), 2);
  if (c10::multiply_integers(shape) > 100'000) return;  // memory that the file does not have
  network->forward(torch::zeros(shape, network->parameters().front().options()));
}

void read_trained(std::string_view bytes) {
  const study::TrainedModel model =
      study::parse_trained_model(parse_safetensors(bytes, kFile), kFile);
  const std::string saved = dump_safetensors(study::to_safetensors(model), kFile);
  read_again([&] { study::parse_trained_model(parse_safetensors(saved, kFile), kFile); });
  std::vector<int64_t> shape = model.preprocess.feature_shape();
  shape.insert(shape.begin(), 2);
  if (c10::multiply_integers(shape) > 100'000) return;  // memory that the file does not have
  const torch::Tensor x = torch::zeros(shape, torch::kFloat64);
  study::in_units(model.predictor, model.preprocess, study::mean_outputs(model.predictor, x));
}

/// Once as it is, once as what a user may say about it.
void read_csv(std::string_view bytes) {
  data::CsvOptions plain;
  plain.header = false;
  plain.delimiter = ';';
  try {
    data::parse_csv(bytes, kFile, plain);
  } catch (const InvalidArgument&) {
  }
  data::describe(data::parse_csv(bytes, kFile));
}

/// In colour and in grey. A header may ask for more than a run of the fuzzer should spend.
void read_image(std::string_view bytes) {
  for (const int64_t channels : {3, 1}) {
    const image::Picture picture = image::decode(bytes, kFile, channels);
    if (picture.width * picture.height < 100'000) image::to_tensor(picture, 5, 4);
  }
}

void read_idx(std::string_view bytes) { image::parse_idx(bytes, kFile).sum(); }

/// What it says can be said again, and be resumed.
void read_run(std::string_view bytes) {
  const run::RunRecord record = run::parse_record(std::string(bytes), kFile);
  const std::string json = run::to_json(record);
  read_again([&] { run::parse_record(json, kFile); });
  run::options_of(record);
}

/// The page of a run whose every table has these bytes.
void read_tables(std::string_view bytes) {
  static const run::RunRecord run = run::parse_record(
      R"({"format": "cdt-run-1", "settings": {"method": "guarded"}, "result": {"outcome": "steps", "steps": 2},
          "errors": {"train": {"price": {"rmse": 1, "mae": 1},
                               "kind": {"accuracy": 1, "classes": ["a"], "confusion": [[1]]}}}})",
      "run.json");
  const std::string text(bytes);
  run::RunRecord record = run;
  run::read_tables(record, {"", text, text}, kFile);
  record.name = "run";
  report::to_html(report::run_page({record}));
}

void read_preprocess(std::string_view bytes) {
  const data::Preprocess preprocess = data::parse_preprocess(std::string(bytes), kFile);
  const std::string json = data::to_json(preprocess);
  read_again([&] { data::parse_preprocess(json, kFile); });
  preprocess.feature_count();
  preprocess.output_count();
}

void read_results(std::string_view bytes) {
  report::to_html(report::sweep_page(experiment::parse_results(std::string(bytes), kFile)));
}

void read_sweep_run(std::string_view bytes) { experiment::parse_run(bytes, kFile); }

/// The results of a sweep that goes on from there.
void read_sweep(std::string_view bytes) {
  experiment::Sweep sweep;
  sweep.sessions = experiment::parse_sweep(bytes, kFile);
  const experiment::Plan plan = experiment::test::sample_plan();
  sweep.runs = {experiment::test::made_up({"small", "gd", 0.1, plan.p, 1, plan.steps}, 1)};
  const auto rows = experiment::collect_rows(plan, sweep.runs);
  const std::string json = experiment::to_json({plan, sweep, rows, {}, {}});
  read_again([&] { experiment::parse_results(json, kFile); });
}

/// With few seeds, as the command line may ask for: every further one would add time, no more.
void read_experiment(std::string_view bytes) {
  const JsonValue content = cli::parse_toml(bytes, kFile);
  experiment::Plan plan = experiment::read_plan(content);
  paper::read_published(content);
  plan.seeds = std::min<int64_t>(plan.seeds, 2);
  experiment::require_sound(plan);
  experiment::cases_of(plan);
}

void read_toml(std::string_view bytes) {
  for (const auto& [name, value] : cli::parse_toml(bytes, kFile).members()) {
    if (value.exists()) value.raw();
  }
}

void read_figures(std::string_view bytes) {
  const std::string json = report::to_json(report::parse_figures(std::string(bytes), kFile));
  read_again([&] { report::parse_figures(json, kFile); });
}

void read_history(std::string_view bytes) {
  const std::string csv = train::to_csv(train::parse_history(std::string(bytes)));
  read_again([&] { train::parse_history(csv); });
}

/// Restores it into a trainer of each kind of memory, and takes a step with what came.
void read_checkpoint(std::string_view bytes) {
  const SafeTensors content = parse_safetensors(bytes, kFile);
  static const std::vector<train::Method> kMethods{"guarded", "momentum", "adam", "lbfgs"};
  std::string refused;
  for (const train::Method method : kMethods) {
    nn::MlpOptions shape;
    shape.inputs = 2;
    shape.hidden = {3};
    const nn::Mlp model(shape, /*seed=*/1);
    train::TrainData data;
    data.x = torch::linspace(-1, 1, 8).reshape({4, 2});
    data.y = torch::linspace(0, 1, 4, torch::kFloat64).reshape({4, 1});
    train::TrainOptions options;
    options.method = method;
    options.steps = 5;
    train::Trainer trainer(model, data, options);
    try {
      trainer.restore(content);
    } catch (const InvalidArgument& error) {
      refused = error.what();
      continue;
    }
    trainer.step();
    return;
  }
  throw InvalidArgument(refused);
}

study::Problem small_problem() {
  study::Problem problem;
  problem.data.x = torch::linspace(-1, 1, 12).reshape({6, 2});
  problem.data.y = torch::linspace(0, 1, 6, torch::kFloat64).square().reshape({6, 1});
  problem.data.x_val = torch::linspace(-0.5, 0.7, 4).reshape({2, 2});
  problem.data.y_val = torch::linspace(0, 1, 2, torch::kFloat64).reshape({2, 1});
  return problem;
}

/// Restores it into learners by a path and by an optimizer, takes a point with what came, and
/// what is saved then must be read.
void read_learner(std::string_view bytes) {
  const SafeTensors content = parse_safetensors(bytes, kFile);
  static const study::Problem problem = small_problem();
  std::string refused;
  for (const train::Method method : {"path", "adam"}) {
    study::LearnOptions options;
    options.training.method = method;
    options.training.steps = 6;
    options.training.patience = 3;
    options.network.hidden = {2};
    options.members = method == "path" ? 2 : 1;
    options.intervals = method == "path";
    study::Learner learner(problem, options);
    try {
      learner.restore(content);
    } catch (const InvalidArgument& error) {
      refused = error.what();
      continue;
    }
    int64_t seen = 0;
    study::LearnHooks hooks;
    hooks.on_point = [&](study::LearnStage, const train::StepRecord&, int64_t) { ++seen; };
    hooks.stop_requested = [&] { return seen > 0; };
    learner.run(hooks);
    const std::string saved = dump_safetensors(learner.checkpoint(), kFile);
    read_again([&] { learner.restore(parse_safetensors(saved, kFile)); });
    return;
  }
  throw InvalidArgument(refused);
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all{
      {"checkpoint", Shape::kSafetensors, read_checkpoint},
      {"csv", Shape::kBytes, read_csv},
      {"experiment", Shape::kToml, read_experiment},
      {"figures", Shape::kJson, read_figures},
      {"history", Shape::kBytes, read_history},
      {"idx", Shape::kBytes, read_idx},
      {"image", Shape::kBytes, read_image},
      {"learner", Shape::kSafetensors, read_learner},
      {"model", Shape::kSafetensors, read_model},
      {"npy", Shape::kBytes, read_npy},
      {"npz", Shape::kBytes, read_npz},
      {"preprocess", Shape::kJson, read_preprocess},
      {"results", Shape::kJson, read_results},
      {"run", Shape::kJson, read_run},
      {"safetensors", Shape::kSafetensors, read_safetensors},
      {"sweep", Shape::kJson, read_sweep},
      {"sweep_run", Shape::kJson, read_sweep_run},
      {"tables", Shape::kBytes, read_tables},
      {"toml", Shape::kToml, read_toml},
      {"trained", Shape::kSafetensors, read_trained},
  };
  return all;
}

const Target& find_target(std::string_view name) {
  std::string known;
  for (const Target& target : targets()) {
    if (target.name == name) return target;
    known += (known.empty() ? "" : ", ") + std::string(target.name);
  }
  throw InvalidArgument(c10::str("expected one of ", known, ", got '", name, "'"));
}

void run(const Target& target, std::string_view bytes) {
  try {
    target.read(bytes);
  } catch (const InvalidArgument&) {
  } catch (const NumericalError&) {
  }
}

}  // namespace cdt::fuzz
