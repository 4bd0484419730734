#include "cli/study_options.h"

#include <cdt/core/error.h>
#include <cdt/data/numpy/arrays.h>
#include <cdt/run/settings.h>
#include <cdt/study/problem.h>
#include <fmt/format.h>

namespace cdt::cli {
namespace {

/// A flag that takes lists, each a line of CSV; `take` gets the items of all.
template <class Take>
CLI::Option* add_list(CLI::App& app, const std::string& flag, Take take, const std::string& text,
                      const std::string& type) {
  return app
      .add_option_function<std::vector<std::string>>(
          flag,
          [take, flag](const std::vector<std::string>& lists) {
            std::vector<std::string> items;
            for (const std::string& list : lists) {
              for (std::string& item : data::csv_list(list, flag)) items.push_back(std::move(item));
            }
            take(items);
          },
          text)
      ->allow_extra_args(false)
      ->type_name(type);
}

/// A flag of a choice that the goal makes where the flag is not given: `usual`, for the help.
template <class T, class Parse>
void add_choice(CLI::App& app, const std::string& flag, std::optional<T>& field, Parse parse,
                const std::vector<std::string>& names, T usual, const std::string& text) {
  app.add_option_function<std::string>(
         flag, [&field, parse](const std::string& name) { field = parse(name); }, text)
      ->check(CLI::IsMember(names))
      ->default_str(to_string(usual));
}

/// Columns whose type the content shall not decide.
void add_typed_columns(CLI::App& app, const std::string& flag, data::CsvOptions& csv,
                       data::ColumnType type, const std::string& text) {
  add_list(
      app, flag,
      [&csv, type](const std::vector<std::string>& names) {
        for (const std::string& name : names) {
          const auto [known, fresh] = csv.types.emplace(name, type);
          CDT_REQUIRE(fresh || known->second == type, "expected column ", data::in_quotes(name),
                      " in --numeric or --text, but came in both");
        }
      },
      text, "COLUMN");
}

/// What is about pictures alone.
void add_picture_options(CLI::App& app, study::PictureOptions& pictures) {
  add_optional(app, "--size", pictures.size,
               "pictures: both sides in pixels. Default: 96, of IDX files as they are")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->type_name("N");
  app.add_flag("--grey", pictures.grey, "pictures: one channel of grey instead of three of colour");
  app.add_flag("--skip-bad", pictures.skip_bad,
               "pictures: leave out files that are none, or damaged, instead of refusing them");
  app.add_option("--cache", pictures.cache,
                 "pictures: a folder to keep decoded ones for the next time")
      ->type_name("DIR");
}

}  // namespace

CLI::Option* add_columns(CLI::App& app, const std::string& flag, std::vector<std::string>& columns,
                         const std::string& text) {
  return add_list(
      app, flag, [&columns](const std::vector<std::string>& names) { columns = names; }, text,
      "COLUMN");
}

void add_csv_options(CLI::App& app, std::string& file, data::CsvOptions& csv, bool required) {
  app.add_option("FILE", file, "a CSV file")->required(required);
  add_columns(app, "--drop", csv.drop,
              "columns to leave out, with commas between; a name with a comma in double quotes");
  add_typed_columns(app, "--numeric", csv, data::ColumnType::kNumeric,
                    "columns that must be numbers, whatever they look like");
  add_typed_columns(app, "--text", csv, data::ColumnType::kText,
                    "columns that are text, even if they look like numbers");
  add_list(
      app, "--missing",
      [&csv](const std::vector<std::string>& marks) { csv.missing_marks = marks; },
      "marks of missing values besides the empty cell, with commas between; default NA,?,nan",
      "MARK");
  app.add_flag_callback(
      "--no-header", [&csv] { csv.header = false; },
      "the first line is data; columns are column1, column2, ...");
  app.add_option_function<std::string>(
         "--delimiter",
         [&csv](const std::string& text) {
           const std::string between = text == "\\t" ? "\t" : text;
           CDT_REQUIRE(between.size() == 1, "--delimiter: expected one character, but came ",
                       data::in_quotes(text));
           csv.delimiter = between[0];
         },
         "between fields; \\t for a tab. Default: a comma, or what the first line has instead: ; | "
         "or tabs")
      ->type_name("CHAR");
  app.add_option_function<std::string>(
         "--decimal", [&csv](const std::string& name) { csv.decimal = data::parse_decimal(name); },
         "what stands before decimals where a column leaves it open (1,200): point or comma")
      ->check(CLI::IsMember({"point", "comma"}))
      ->type_name("MARK");
  app.add_option_function<std::string>(
         "--dates", [&csv](const std::string& name) { csv.dates = data::parse_date_order(name); },
         "the order of dates that a column leaves open (1/2/2024): day-month or month-day")
      ->check(CLI::IsMember({"day-month", "month-day"}))
      ->type_name("ORDER");
}

void add_array_options(CLI::App& app, std::string& file, std::string& labels) {
  CLI::Option* place = app.get_option("FILE")->required(false);
  app.add_option_function<std::string>(
         "--inputs",
         [&file](const std::string& path) {
           CDT_REQUIRE(data::holds_arrays(path), "--inputs ", path,
                       ": expected an array of NumPy, a .npy or .npz file");
           file = path;
         },
         "instead of FILE: inputs [rows, features] as .npy, or an array of an .npz archive "
         "(FILE.npz:NAME; x if it is not named). Columns are x1, x2, …")
      ->excludes(place)
      ->type_name(kInputFile);
  app.add_option("--labels", labels,
                 "of --inputs: labels [rows] or [rows, targets] as .npy or .npz, then the columns "
                 "y, or y1, y2, …; default: the y of an archive of inputs")
      ->type_name(kInputFile);
}

void require_file(const std::string& file, const std::string& labels) {
  CDT_REQUIRE(!file.empty(), "FILE is required, or arrays (--inputs)");
  CDT_REQUIRE(labels.empty() || data::holds_arrays(file),
              "--labels goes with inputs in an array of NumPy (--inputs); ", file, " is none");
}

void show_reading(data::CsvOptions& csv, bool quiet) {
  constexpr int64_t kMegabyte = 1'000'000;
  csv.progress = [show = progress("reading", "MB", quiet)](int64_t done, int64_t total) {
    if (total > kMegabyte) show(done / kMegabyte, total / kMegabyte, "");
  };
}

void require_target(const study::DataOptions& data) {
  CDT_REQUIRE(data.is_pictures || !data.targets.empty() || data::holds_arrays(data.file),
              "--target is required: the columns of ", data.file, " to learn");
}

std::set<std::string> given_settings(const CLI::App& app) {
  std::set<std::string> names;
  for (const run::Setting& setting : run::all_settings()) {
    const auto given = [&](const std::string& flag) {
      return app.get_option_no_throw(flag) != nullptr && app.count(flag) > 0;
    };
    const bool file = setting.name == "file" && (given("FILE") || given("--inputs"));
    if (file || given("--" + setting.name)) names.insert(setting.name);
  }
  return names;
}

void add_table_options(CLI::App& app, study::DataOptions& data, bool required) {
  add_csv_options(app, data.file, data.csv, required);
  add_columns(app, "--target", data.targets, "columns to learn, with commas between");
  add_choice(app, "--missing-target", data.missing_target, study::parse_missing_target,
             {"drop", "error"}, study::missing_target_of(data),
             "a row without a target: leave it out, or refuse the file");
  app.add_option("--rows", data.rows, "rows to draw from the file without replacement; 0 takes all")
      ->check(non_negative())
      ->capture_default_str();
  add_optional(app, "--train-fraction", data.train_fraction,
               "share of them to train on; the others validate. predict: share to learn from; the "
               "others are test rows; default: all")
      ->check(CLI::Range(0.0, 1.0))
      ->default_str(fmt::format("{}", study::train_fraction_of(data)));
  app.add_option("--train-rows", data.train_rows, "rows to train on, instead of the share")
      ->check(positive());
  app.add_option("--test-fraction", data.test_fraction,
                 "share of the rows, drawn first, that is not looked at until the end")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--group", data.group,
                 "column, no feature: rows that are equal in it, of one customer say, go to one "
                 "side of the split")
      ->type_name("COLUMN");
  app.add_option("--time", data.time,
                 "column of numbers or dates: the latest rows validate, and test")
      ->type_name("COLUMN");
  const data::PreprocessOptions usual = study::preprocess_options(data);
  add_choice(app, "--categories", data.encoding, data::parse_encoding, {"index", "onehot"},
             usual.encoding, "text as the index of its category, or one feature per category");
  add_optional(app, "--max-levels", data.max_levels,
               "categories of a column with features of their own, the most frequent ones; rare "
               "ones have one together. 0: all")
      ->check(non_negative())
      ->default_str(std::to_string(usual.max_levels));
  add_choice(app, "--missing-numbers", data.missing_number, data::parse_missing_number,
             {"zero", "median"}, usual.missing_number,
             "what stands for a missing number; missing text is a category of its own");
  add_choice(app, "--unknown", data.unknown_category, data::parse_unknown_category,
             {"error", "missing"}, usual.unknown_category,
             "a category in new data that the file did not have: refuse it, or take it as the rare "
             "ones that have a feature together, as missing if there are none");
  add_optional(app, "--quantiles", data.quantiles,
               "numbers also piece by piece between so many of their quantiles, 3 or more; 0: not")
      ->check(non_negative())
      ->default_str(std::to_string(usual.quantiles));
  const std::vector<std::string> scalings{"minmax", "standard", "none"};
  add_choice(app, "--scale", data.scaling, data::parse_scaling, scalings, usual.scaling,
             "features: range 1 and mean 0, standard deviation 1 and mean 0, or as they are");
  add_optional(app, "--clip", data.clip,
               "bends scaled features smoothly so that none is beyond ±C; 0: as they are")
      ->check(non_negative())
      ->type_name("C")
      ->default_str(fmt::format("{}", usual.clip));
  add_choice(app, "--target-scale", data.target_scaling, data::parse_scaling, scalings,
             usual.target_scaling, "targets, likewise; predictions come back in units of the file");
  add_choice(app, "--target-transform", data.target_transform, data::parse_target_transform,
             {"auto", "none", "log"}, usual.target_transform,
             "learn the logarithm of the targets: where they are above zero and skewed, never, "
             "always; predictions come back in units of the file");
  add_choice(
      app, "--fit", data.fit, study::parse_fit, {"train", "seen", "all"}, study::fit_of(data),
      "fit the scaling on training rows, on those and validation rows, or on the whole file");
  add_columns(app, "--keep", data.keep,
              "columns to learn from, even if they look like identifiers or are constant");
}

void add_data_options(CLI::App& app, study::DataOptions& data, bool required) {
  add_table_options(app, data, required);
  app.get_option("FILE")->description(
      "a CSV file; arrays of NumPy, as --inputs; or pictures: a folder with a folder a class, or "
      "an IDX file (…images-idx3…) with its labels beside it");
  app.get_option("--target")
      ->description(
          "columns to learn, with commas between; of pictures it is the class, of arrays all "
          "labels unless some are named");
  add_picture_options(app, data.pictures);
  app.add_option("--sample-weights", data.sample_weights,
                 "column with positive weights of the samples in the controller's Q, or in what "
                 "a --form solves; no feature. "
                 "With --goal predict also in scales and validation, and 0 leaves a row out")
      ->type_name("COLUMN");
}

void add_network_options(CLI::App& app, study::NetworkOptions& network, bool hidden_layers) {
  if (hidden_layers) {
    std::vector<std::string> names;
    for (const nn::Architecture& each : nn::architectures()) names.push_back(each.name);
    app.add_option_function<std::string>(
           "--arch",
           [&network, &app](const std::string& name) {
             const auto layers = network.hidden;
             network.choose(name);
             if (app.count("--hidden") > 0) network.hidden = layers;
           },
           "the architecture: mlp, dense layers; for pictures cnn (their default), or alexnet and "
           "resnet18 as they were published")
        ->check(CLI::IsMember(names))
        ->default_str(network.architecture);
    app.add_option("--hidden", network.hidden,
                   "widths of the hidden layers, with commas between; channels of a cnn (32,64)")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(positive())
        ->type_name("N")
        ->default_str("256,256");
  }
  add_named(app, "--activation", network.activation, nn::parse_activation,
            {"relu", "tanh", "gelu", "softplus", "erf"}, "between layers");
  add_named(app, "--parametrization", network.parametrization, nn::parse_parametrization,
            {"standard", "ntk", "improved"}, "how weights are drawn and scaled");
  app.add_option("--sigma-w", network.sigma_w, "σ_w: weights are drawn with variance σ_w²/n")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--sigma-b", network.sigma_b, "σ_b: biases are drawn with variance σ_b²")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--width-factor", network.width_factor, "s: multiplies the hidden widths")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--dtype",
         [&network](const std::string& name) { network.dtype = study::parse_dtype(name); },
         "the network's precision")
      ->check(CLI::IsMember({"float32", "float64"}))
      ->default_str(study::dtype_name(network.dtype));
}

CLI::Option* add_memory(CLI::App& app, int64_t& bytes, const std::string& text) {
  return app
      .add_option_function<int64_t>(
          "--memory", [&bytes](int64_t megabytes) { bytes = megabytes << 20; }, text)
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->default_str(std::to_string(bytes >> 20));
}

void add_training_options(CLI::App& app, train::TrainOptions& training, study::DataOptions& data) {
  add_named(app, "--method", training.method, train::parse_method, train::method_names(),
            "guarded: every step is checked, no rate needed; cdt: the paper's; gd, gd-matched "
            "(gd at lr·√(1 + q/p)), momentum, adam, lbfgs: to compare with");
  app.add_option_function<std::string>(
         "--loss", [&training](const std::string& name) { training.loss = loss::parse(name); },
         "mse, half-mse, sse; huber:δ, squares up to errors of δ (default 1, in spreads of the "
         "target) and a line beyond, for outliers; quantile:q, below which a share q of targets "
         "lies; cross-entropy: the target is a class, text or whole numbers, and the default of "
         "--goal predict for text and for two values; mae: without control only")
      ->check(CLI::Validator(
          [](const std::string& name) {
            try {
              return loss::parse(name)->traits().trainable ? std::string()
                                                           : name + " is for analysis alone";
            } catch (const InvalidArgument& error) {
              return std::string(error.what());
            }
          },
          "LOSS"))
      ->default_str(to_string(training.loss));
  add_optional(app, "--smoothing", training.smoothing,
               "of class labels: trained on (1 - ε)·label + ε/classes. Default: 0.1 for guarded "
               "and cdt, which need it, else 0")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("ε");
  add_optional(app, "--lr", training.learning_rate,
               "learning rate α; default: found from the kernel")
      ->check(positive());
  train::Schedule& schedule = training.schedule;
  // Callbacks run in the order of the options: --decay has the last word.
  app.add_option_function<std::string>(
         "--schedule",
         [&schedule](const std::string& name) {
           schedule.kind = train::parse_schedule(name);
           if (schedule.kind == train::Schedule::Kind::kStep) schedule.decay = 0.5;
         },
         "of the rate: constant, inverse α/(1 + decay·k), exponential, cosine, step")
      ->check(CLI::IsMember({"constant", "inverse", "exponential", "cosine", "step"}))
      ->default_str(to_string(schedule.kind));
  app.add_option_function<double>(
         "--decay",
         [&schedule, &app](double decay) {
           schedule.decay = decay;
           if (app.count("--schedule") == 0) schedule.kind = train::Schedule::Kind::kInverse;
         },
         "of the schedule; alone it means inverse. Default: 0.01, of step 0.5")
      ->check(non_negative());
  app.add_option("--decay-period", schedule.period, "steps between two decays of the schedule step")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--p", training.p, "weight on label augments, R = pI: smaller steers harder")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--q", training.q, "weight on errors, Q = qI")
      ->check(positive())
      ->capture_default_str();
  app.add_option("--shape", training.shape,
                 "spectral shaping: less q on modes with an eigenvalue below this share of the "
                 "largest, where noise is learned; 0: none")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option(
         "--output-weights", data.output_weights,
         "weights of the targets in the loss, by cdt in the controller's Q, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive());
  app.add_option_function<std::string>(
      "--relinearize",
      [&training](const std::string& text) {
        training.relinearize = train::parse_relinearization(text);
      },
      "when to compute the kernel anew: never, every:N, kc, error:TOL or guard. Default: "
      "guard for guarded, never for cdt");
  app.add_option(
         "--curvature-products", training.curvature_products,
         "of --relinearize kc: products with second derivatives for the norm of ∂²ŷ/∂θ², at "
         "most, for each kernel; 0: 400, or 60 of a large network")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  add_named(
      app, "--form", training.form, train::parse_form,
      {"auto", "dual", "primal", "free", "sketch", "batch"},
      "how a step is solved, of --goal predict and of guarded runs without a rate, for numbers "
      "and classes, with weights or without: by the kernel of all rows, the Gram matrix of the "
      "parameters, conjugate gradients, those "
      "steered by the kernel of some rows, or kernels of batches with a momentum (--batch); "
      "auto counts operations and memory, and takes one of the first four, or batches to predict "
      "numbers of many rows on a CPU; guarded runs on classes have a controller instead while rows "
      "are few");
  app.add_option("--weight-decay", training.weight_decay, "adds ½·decay·‖θ‖² to the objective")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option(
         "--batch", training.batch,
         "samples a step; 0 takes all (default: all where a linearization takes seconds, "
         "else so many that it takes one; 500 residuals by --form batch, all by the other forms, "
         "of which guarded runs on many classes, or with weights, take one)")
      ->check(non_negative());
  app.add_flag("--reshuffle", training.reshuffle,
               "new batches each epoch; otherwise they recur, and their controllers are kept");
  app.add_option("--steps", training.steps, "at most so many")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--stop-loss", training.stop_loss, "stop at this training loss; 0: never")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--patience", training.patience,
                 "stop after so many steps without a better validation loss, and keep the best "
                 "weights; 0: off")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--plateau", training.plateau,
                 "stop after so many steps without a training loss lower by 0.01 %; 0: off")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--max-seconds", training.max_seconds, "stop after this time; 0: no limit")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--validate-every", training.validate_every, "steps between validation losses")
      ->check(positive())
      ->capture_default_str();
  app.add_flag("--linearization-error", training.linearization_error,
               "record how far the network has left its local model (a Jacobian-vector product a "
               "step)");
  add_memory(app, training.memory_bytes, "for the kernel's computation, in MB");
  app.add_option("--checkpoint-seconds", training.checkpoint_seconds, "between checkpoints")
      ->check(non_negative())
      ->capture_default_str();
  app.add_option("--seed", training.seed, "of rows, split, network and batches")
      ->check(non_negative())
      ->capture_default_str();
}

}  // namespace cdt::cli
