// cdt predict: a run folder and a CSV file → predictions in units of the training file.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/format.h>
#include <fmt/format.h>

#include <iostream>

#include "cli/classes.h"
#include "cli/run_folder.h"

namespace cdt::cli {
namespace {

struct PredictCommand {
  std::string run;
  std::string file;
  std::string out;
  MachineOptions machine;
  OutputOptions output;
};

int run_predict(const PredictCommand& options) {
  const torch::Device device = options.machine.apply();
  const RunFolder folder(options.run);
  folder.require_run();
  const auto preprocess =
      data::parse_preprocess(read_file(folder.preprocess()), folder.preprocess().string());
  const nn::Network model = load_model(folder.model().string(), device);
  CDT_REQUIRE(model->input_shape() == std::vector{preprocess.feature_count()} &&
                  model->output_count() == preprocess.output_count(),
              options.run, ": model and preprocessing do not fit each other: the model takes ",
              c10::IntArrayRef(model->input_shape()), " features and has ", model->output_count(),
              " outputs, the preprocessing gives ", preprocess.feature_count(), " and wants ",
              preprocess.output_count());
  const data::Table table = data::read_csv(options.file, preprocess.csv_options());
  const torch::Tensor predictions =
      predict_targets(model, preprocess, preprocess.transform(table), options.file);

  std::string csv = "row";
  bool known = true;
  for (const auto& target : preprocess.targets) {
    csv += "," + csv_field(target.name);
    const data::Column* column = table.find(target.name);
    known = known && column != nullptr;
    for (int64_t row = 0; known && row < table.rows(); ++row) known = !column->is_missing(row);
  }
  std::vector<std::string> classes;
  if (preprocess.has_classes()) {
    csv += probability_columns(preprocess);
    classes = class_names(preprocess, predictions);
  }
  csv += "\n";
  for (int64_t row = 0; row < predictions.size(0); ++row) {
    csv += std::to_string(row + 1);
    if (!classes.empty()) csv += "," + csv_field(classes[static_cast<size_t>(row)]);
    csv += value_cells(predictions, row) + "\n";
  }
  const bool to_stdout = options.out == "-";
  CDT_REQUIRE(!to_stdout || options.output.json != "-",
              "--out - and --json - cannot share standard output");
  if (to_stdout) {
    std::cout << csv << std::flush;
  } else {
    write_file_atomically(options.out, {csv});
  }

  nlohmann::ordered_json json{{"run", options.run},
                              {"file", options.file},
                              {"rows", table.rows()},
                              {"predictions", options.out}};
  std::string text =
      fmt::format("{}: predictions for {}\n", options.out, count_of(table.rows(), "row"));
  if (known) {
    try {
      json["errors"] = measure_errors(preprocess, predictions,
                                      preprocess.to_original(preprocess.transform_targets(table)));
    } catch (const InvalidArgument& error) {  // predictions need no targets
      std::cerr << "cdt: warning: errors were not measured: " << error.what() << "\n";
      json["errors"] = nlohmann::ordered_json::object();
    }
    for (const auto& [name, error] : json["errors"].items()) {
      if (preprocess.has_classes()) {
        text += fmt::format("  {} is in the file: {:.2f} % of the rows are right\n", name,
                            100 * error["accuracy"].get<double>());
        continue;
      }
      text += fmt::format(
          "  {} is in the file: off by {:.6g} RMS, {:.6g} on average{}\n", name,
          error["rmse"].get<double>(), error["mae"].get<double>(),
          error["r2"].is_null() ? "" : fmt::format(", R² = {:.4f}", error["r2"].get<double>()));
    }
  }
  if (!to_stdout) options.output.text(text);
  options.output.write_json(json.dump(2));
  return 0;
}

}  // namespace

std::function<int()> setup_predict(CLI::App& app) {
  auto options = std::make_shared<PredictCommand>();
  app.add_option("RUN", options->run, "the folder that cdt train wrote")->required();
  app.add_option("FILE", options->file,
                 "a CSV file with the columns of the training file; targets may be absent")
      ->required();
  app.add_option("--out", options->out,
                 "where to write the predictions, CSV; - for standard output")
      ->required()
      ->type_name(kOutputFile);
  options->machine.add_to(app);
  options->output.add_to(app);
  app.footer("Example:\n  cdt predict run1 new.csv --out prices.csv");
  return [options] { return run_predict(*options); };
}

}  // namespace cdt::cli
