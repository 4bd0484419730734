#include "cli/problem.h"

#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/data/samples.h>
#include <fmt/format.h>

#include <numeric>

namespace cdt::cli {
namespace {

using torch::Tensor;

CLI::Option* add_columns(CLI::App& app, const std::string& flag, std::vector<std::string>& columns,
                         const std::string& text) {
  return app.add_option(flag, columns, text)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COLUMN");
}

CLI::Option* add_choice(CLI::App& app, const std::string& flag, std::string& value,
                        const std::vector<std::string>& choices, const std::string& text) {
  return app.add_option(flag, value, text)->check(CLI::IsMember(choices))->capture_default_str();
}

std::vector<ConflictingRows> find_conflicts(const Tensor& x, const Tensor& y,
                                            const data::Table& table, const Problem& problem) {
  const Tensor features = x.contiguous();
  const auto width = static_cast<size_t>(features.size(1)) * sizeof(double);
  const char* bytes = static_cast<const char*>(features.data_ptr());
  std::map<std::string_view, std::vector<int64_t>> groups;
  for (int64_t i = 0; i < features.size(0); ++i) {
    groups[{bytes + static_cast<size_t>(i) * width, width}].push_back(i);
  }
  std::vector<ConflictingRows> conflicts;
  for (const auto& [row, samples] : groups) {
    if (samples.size() < 2) continue;
    const Tensor labels =
        problem.preprocess.to_original(y.index_select(0, torch::tensor(samples, torch::kInt64)));
    const Tensor gaps = std::get<0>(labels.max(0)) - std::get<0>(labels.min(0));
    const auto target = gaps.argmax().item<int64_t>();
    const double gap = gaps[target].item<double>();
    if (gap == 0) continue;
    const auto& targets = problem.preprocess.targets;
    ConflictingRows found;
    found.difference =
        problem.preprocess.has_classes()
            ? fmt::format("their {} differs; at best its frequencies are learned", targets[0].name)
            : fmt::format("their {} differs by up to {:.6g}; at best its mean is learned",
                          targets[static_cast<size_t>(target)].name, gap);
    for (const int64_t sample : samples) {
      const int64_t source = problem.split.train[static_cast<size_t>(sample)];
      found.lines.push_back(table.lines[static_cast<size_t>(source)]);
    }
    std::sort(found.lines.begin(), found.lines.end());
    conflicts.push_back(std::move(found));
  }
  std::sort(conflicts.begin(), conflicts.end(),
            [](const auto& a, const auto& b) { return a.lines < b.lines; });
  return conflicts;
}

Tensor read_weights(const data::Table& table, const std::string& name,
                    const std::vector<int64_t>& rows) {
  const data::Column& column = table.at(name);
  CDT_REQUIRE(column.type == data::ColumnType::kNumeric, table.source, ": the weights in column ",
              data::in_quotes(name), " must be numbers");
  std::vector<double> weights;
  for (const int64_t row : rows) {
    const double weight = column.numbers[static_cast<size_t>(row)];
    CDT_REQUIRE(weight > 0, table.source, ", line ", table.lines[static_cast<size_t>(row)],
                ": expected a positive weight in column ", data::in_quotes(name), ", but came ",
                column.is_missing(row) ? "a missing value" : c10::str(weight));
    weights.push_back(weight);
  }
  return torch::tensor(weights, torch::kFloat64);
}

}  // namespace

std::string checksum(const std::string& bytes) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  return fmt::format("{:016x}", hash);
}

void CsvFileOptions::add_to(CLI::App& app, bool required) {
  app.add_option("FILE", path, "a CSV file")->required(required);
  add_columns(app, "--drop", drop, "columns to leave out, with commas between");
  add_columns(app, "--numeric", numeric, "columns that must be numbers, whatever they look like");
  add_columns(app, "--text", text, "columns that are text, even if they look like numbers");
  app.add_option("--missing", missing_marks,
                 "marks of missing values besides the empty cell, with commas between; "
                 "default NA,?,nan")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("MARK");
  app.add_flag("--no-header", no_header,
               "the first line is data; columns are column1, column2, ...");
  app.add_option("--delimiter", delimiter, "between fields; \\t for a tab")
      ->capture_default_str()
      ->type_name("CHAR");
}

data::CsvOptions CsvFileOptions::settings() const {
  data::CsvOptions options;
  const std::string between = delimiter == "\\t" ? "\t" : delimiter;
  CDT_REQUIRE(between.size() == 1, "--delimiter: expected one character, but came ",
              data::in_quotes(delimiter));
  options.delimiter = between[0];
  options.header = !no_header;
  options.drop = drop;
  if (!missing_marks.empty()) options.missing_marks = missing_marks;
  for (const std::string& name : numeric) options.types[name] = data::ColumnType::kNumeric;
  for (const std::string& name : text) {
    CDT_REQUIRE(options.types.emplace(name, data::ColumnType::kText).second, "expected column ",
                data::in_quotes(name), " in --numeric or --text, but came in both");
  }
  return options;
}

data::Table CsvFileOptions::read() const { return data::read_csv(path, settings()); }

void DataOptions::add_to(CLI::App& app, bool required) {
  csv.add_to(app, required);
  add_columns(app, "--target", targets, "columns to learn, with commas between")
      ->required(required);
  app.add_option("--rows", rows, "rows to draw from the file without replacement; 0 takes all")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--train-fraction", train_fraction,
                 "share of them to train on; the others validate")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--train-rows", train_rows, "rows to train on, instead of the share")
      ->check(positive());
  add_choice(app, "--categories", categories, {"index", "onehot"},
             "text as the index of its category, or one feature per category");
  add_choice(app, "--missing-numbers", missing_numbers, {"zero", "median"},
             "what stands for a missing number; missing text is a category of its own");
  add_choice(app, "--unknown", unknown, {"error", "missing"},
             "a category in new data that the file did not have: refuse it, or take it as missing");
  add_choice(app, "--scale", scale, {"minmax", "standard", "none"},
             "features: range 1 and mean 0, standard deviation 1 and mean 0, or as they are");
  app.add_option("--target-scale", target_scale,
                 "targets, likewise; predictions come back in units of the file")
      ->check(CLI::IsMember({"minmax", "standard", "none"}))
      ->default_str("minmax");
  add_choice(app, "--fit", fit, {"train", "all"},
             "fit the scaling on training rows, or on the whole file");
  app.add_option("--sample-weights", sample_weights,
                 "column with positive weights of the samples in the controller's Q; no feature")
      ->type_name("COLUMN");
}

void NetworkOptions::add_to(CLI::App& app, bool hidden_layers) {
  if (hidden_layers) {
    app.add_option("--hidden", hidden, "widths of the hidden layers, with commas between")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(positive())
        ->type_name("N")
        ->default_str("256,256");
  }
  add_choice(app, "--activation", activation, {"relu", "tanh", "gelu", "softplus", "erf"},
             "between layers");
  add_choice(app, "--parametrization", parametrization, {"standard", "ntk", "improved"},
             "how weights are drawn and scaled");
  app.add_option("--sigma-w", sigma_w, "σ_w: weights are drawn with variance σ_w²/n")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--sigma-b", sigma_b, "σ_b: biases are drawn with variance σ_b²")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--width-factor", width_factor, "s: multiplies the hidden widths")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  add_choice(app, "--dtype", dtype, {"float32", "float64"}, "the network's precision");
}

Problem load_problem(const DataOptions& options, const NetworkOptions& network, uint64_t seed,
                     torch::Device device) {
  data::Table table = options.csv.read();
  Problem problem = make_problem(table, options, network, seed, device);
  problem.table = std::move(table);
  problem.checksum = checksum(read_file(options.csv.path));
  return problem;
}

Problem make_problem(const data::Table& table, const DataOptions& options,
                     const NetworkOptions& network, uint64_t seed, torch::Device device) {
  Problem problem;
  const int64_t available = table.rows();
  CDT_REQUIRE(options.rows <= available, options.csv.path, ": --rows asks for ", options.rows,
              " rows, the file has ", available);
  const int64_t count = options.rows > 0 ? options.rows : available;
  const auto share =
      static_cast<int64_t>(std::floor(static_cast<double>(count) * options.train_fraction + 1e-9));
  const int64_t train = options.train_rows > 0 ? options.train_rows : share;
  CDT_REQUIRE(train >= 1, "--train-fraction ", options.train_fraction, " of ", count,
              " rows leaves none to train on");
  CDT_REQUIRE(train <= count, "--train-rows asks for ", train, " of ", count, " rows");
  problem.split = data::split_rows(available, count, train, seed);

  data::PreprocessOptions preprocess;
  preprocess.targets = options.targets;
  if (!options.sample_weights.empty()) {
    CDT_REQUIRE(std::find(options.targets.begin(), options.targets.end(), options.sample_weights) ==
                    options.targets.end(),
                "--sample-weights: expected a column that is no target, but came ",
                data::in_quotes(options.sample_weights));
    preprocess.drop = {options.sample_weights};
  }
  preprocess.encoding = data::parse_encoding(options.categories);
  preprocess.missing_number = data::parse_missing_number(options.missing_numbers);
  preprocess.unknown_category = data::parse_unknown_category(options.unknown);
  preprocess.scaling = data::parse_scaling(options.scale);
  preprocess.classes = options.classes;
  CDT_REQUIRE(!options.classes || options.target_scale.empty(),
              "--target-scale is for numbers; cross-entropy learns classes, which have no scale");
  if (!options.target_scale.empty()) {
    preprocess.target_scaling = data::parse_scaling(options.target_scale);
  }
  const data::CsvOptions csv = options.csv.settings();
  problem.preprocess = options.fit == "all"
                           ? data::fit_preprocess(table, preprocess, csv)
                           : data::fit_preprocess(table, problem.split.train, preprocess, csv);

  nn::NetworkOptions layers;
  layers.input_shape = {problem.preprocess.feature_count()};
  layers.hidden = network.hidden;
  layers.outputs = problem.preprocess.output_count();
  layers.activation = nn::parse_activation(network.activation);
  layers.parametrization = nn::parse_parametrization(network.parametrization);
  layers.sigma_w = network.sigma_w;
  layers.sigma_b = network.sigma_b;
  layers.width_factor = network.width_factor;
  problem.model = nn::make_network(layers, seed,
                                   network.dtype == "float64" ? torch::kFloat64 : torch::kFloat32);
  problem.model->to(device);

  const data::TableSamples samples(table, problem.preprocess);
  const auto [x, y] = samples.batch(problem.split.train);
  problem.conflicts = find_conflicts(x, y, table, problem);
  const torch::ScalarType dtype = problem.model->dtype();
  problem.data.x = x.to(device, dtype);
  problem.data.y = y.to(device);
  if (!problem.split.validation.empty()) {
    const data::Batch validation = samples.batch(problem.split.validation);
    problem.data.x_val = validation.x.to(device, dtype);
    problem.data.y_val = validation.y.to(device);
  }
  if (!options.sample_weights.empty()) {
    problem.data.sample_weights = read_weights(table, options.sample_weights, problem.split.train);
  }
  return problem;
}

}  // namespace cdt::cli
