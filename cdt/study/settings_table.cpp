// The table of settings: place in the options, spelling, and help.
#include <cdt/nn/architectures.h>
#include <cdt/study/learn.h>
#include <cdt/study/parts/setting_row.h>
#include <cdt/train/method.h>

namespace cdt::study {
namespace {

using namespace rows;

/// A resumed run may read its data from another file or pipe with the same checksum.
template <class Field>
Row file_setting(const std::string& name, Field field) {
  return Row{
      name, Setting::Kind::kText,
      [field](const RunOptions& o) -> std::optional<Values> {
        if (field(o).empty()) return std::nullopt;
        return Values{std::filesystem::absolute(field(o)).lexically_normal().string()};
      },
      [field, name](RunOptions& o, const Values& values) { field(o) = single(values, name); }}
      .free();
}

/// Columns whose type is given instead of detected.
Row typed_columns(const std::string& name, data::ColumnType type) {
  return {name, Setting::Kind::kTexts,
          [type](const RunOptions& o) -> std::optional<Values> {
            Values columns;
            for (const auto& [column, wanted] : o.data.csv.types) {
              if (wanted == type) columns.push_back(column);
            }
            if (columns.empty()) return std::nullopt;
            return columns;
          },
          [type](RunOptions& o, const Values& values) {
            for (const std::string& column : values) {
              const auto [known, fresh] = o.data.csv.types.emplace(column, type);
              CDT_REQUIRE(fresh || known->second == type, "expected column ",
                          data::in_quotes(column), " in numeric or text, got in both");
            }
          }};
}

Row missing_marks() {
  return {"missing", Setting::Kind::kTexts,
          [](const RunOptions& o) -> std::optional<Values> {
            if (o.data.csv.missing_marks == data::CsvOptions().missing_marks) return std::nullopt;
            return o.data.csv.missing_marks;
          },
          [](RunOptions& o, const Values& values) { o.data.csv.missing_marks = values; }};
}

Row delimiter() {
  return {"delimiter", Setting::Kind::kText,
          [](const RunOptions& o) {
            const char c = o.data.csv.delimiter.value_or(',');
            return Values{c == '\t' ? std::string("\\t") : std::string(1, c)};
          },
          [](RunOptions& o, const Values& values) {
            const std::string text = single(values, "delimiter");
            const std::string between = text == "\\t" ? "\t" : text;
            CDT_REQUIRE(between.size() == 1, "delimiter: expected one character, got ",
                        data::in_quotes(text));
            o.data.csv.delimiter = between[0];
          }};
}

/// Resolve ambiguous values of columns.
Row decimal() {
  return {"decimal", Setting::Kind::kText,
          [](const RunOptions& o) -> std::optional<Values> {
            if (o.data.csv.decimal == 0) return std::nullopt;
            return Values{o.data.csv.decimal == ',' ? "comma" : "point"};
          },
          [](RunOptions& o, const Values& values) {
            o.data.csv.decimal = data::parse_decimal(single(values, "decimal"));
          }};
}
Row date_order() {
  return {"dates", Setting::Kind::kText,
          [](const RunOptions& o) -> std::optional<Values> {
            if (!o.data.csv.dates) return std::nullopt;
            return Values{to_string(*o.data.csv.dates)};
          },
          [](RunOptions& o, const Values& values) {
            o.data.csv.dates = data::parse_date_order(single(values, "dates"));
          }};
}

Row schedule() {
  return {"schedule", Setting::Kind::kText,
          [](const RunOptions& o) { return Values{to_string(o.training.schedule.kind)}; },
          [](RunOptions& o, const Values& values) {
            train::Schedule& schedule = o.training.schedule;
            schedule.kind = train::parse_schedule(single(values, "schedule"));
            if (schedule.kind == train::Schedule::Kind::kStep) schedule.decay = 0.5;
          }};
}

/// Applied after the schedule; alone it means `inverse`.
Row decay() {
  using Kind = train::Schedule::Kind;
  return {"decay", Setting::Kind::kReal,
          [](const RunOptions& o) -> std::optional<Values> {
            const train::Schedule& schedule = o.training.schedule;
            const double usual = schedule.kind == Kind::kStep ? 0.5 : 0.01;
            if (schedule.kind == Kind::kConstant || schedule.decay == usual) return std::nullopt;
            return Values{fmt::format("{}", schedule.decay)};
          },
          [](RunOptions& o, const Values& values) {
            train::Schedule& schedule = o.training.schedule;
            schedule.decay = parse_number<double>(single(values, "decay"), "decay");
            if (!o.given.contains("schedule")) schedule.kind = Kind::kInverse;
          }};
}

/// With goal predict all rows are learned from by default.
Row train_fraction() {
  return {"train-fraction", Setting::Kind::kReal,
          [](const RunOptions& o) -> std::optional<Values> {
            if (o.data.goal == study::Goal::kPredict && !o.data.train_fraction) return std::nullopt;
            return Values{fmt::format("{}", study::train_fraction_of(o.data))};
          },
          [](RunOptions& o, const Values& values) {
            o.data.train_fraction =
                parse_number<double>(single(values, "train-fraction"), "train-fraction");
          }};
}

/// The trainable losses.
Row loss_setting() {
  const auto field = [](auto& o) -> auto& { return o.training.loss; };
  Row row = named("loss", field, loss::parse);
  row.refuses = [](const std::string& name) {
    try {
      return loss::parse(name)->traits().trainable ? "" : name + " is for analysis alone";
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
  };
  return row;
}

Row relinearize() {
  return {"relinearize", Setting::Kind::kText,
          [](const RunOptions& o) -> std::optional<Values> {
            if (!o.training.relinearize) return std::nullopt;
            return Values{to_string(*o.training.relinearize)};
          },
          [](RunOptions& o, const Values& values) {
            o.training.relinearize = train::parse_relinearization(single(values, "relinearize"));
          }};
}

/// Of cdt; guarded runs solve their steps. The table of designs says what there is.
Row controller() {
  std::string words = "controller of --method cdt.";
  for (const control::Design& each : control::designs()) {
    words += fmt::format(" {}: {};", each.name, each.summary);
  }
  words.back() = '.';
  const auto field = [](auto& o) -> auto& { return o.training.design; };
  return text("controller", field)
      .among(control::design_names())
      .unlisted()
      .says(words + " Default: lqr");
}

Row memory() {
  return {
      "memory", Setting::Kind::kWhole,
      [](const RunOptions& o) { return Values{fmt::format("{}", o.training.memory_bytes >> 20)}; },
      [](RunOptions& o, const Values& values) {
        constexpr int64_t kMost = std::numeric_limits<int64_t>::max() >> 20;
        o.training.memory_bytes = parse_number<int64_t>(single(values, "memory"), "memory", kMost)
                                  << 20;
      }};
}

Row dtype() {
  return {"dtype", Setting::Kind::kText,
          [](const RunOptions& o) { return Values{study::dtype_name(o.network.dtype)}; },
          [](RunOptions& o, const Values& values) {
            o.network.dtype = study::parse_dtype(single(values, "dtype"));
          }};
}

Row device() {
  return {"device", Setting::Kind::kText,
          [](const RunOptions& o) { return Values{o.device.str()}; },
          [](RunOptions& o, const Values& values) {
            const std::string name = single(values, "device");
            const bool numbered = name.starts_with("cuda:") && name.size() > 5 && name.size() < 8 &&
                                  name.find_first_not_of("0123456789", 5) == std::string::npos;
            CDT_REQUIRE(name == "cpu" || name == "cuda" || numbered,
                        "device: expected cpu, cuda or cuda:N, got ", excerpt(name));
            o.device = torch::Device(name);
          }};
}

/// A folder that names no goal is a fit.
Row goal() {
  return {"goal", Setting::Kind::kText,
          [](const RunOptions& o) {
            return Values{study::to_string(o.data.goal.value_or(study::Goal::kFit))};
          },
          [](RunOptions& o, const Values& values) {
            o.data.goal = study::parse_goal(single(values, "goal"));
          }};
}

/// Applied before the hidden layers, which it clears.
Row architecture() {
  return {"arch", Setting::Kind::kText,
          [](const RunOptions& o) { return Values{o.network.architecture}; },
          [](RunOptions& o, const Values& values) { o.network.choose(single(values, "arch")); }};
}

Values architecture_names() {
  Values names;
  for (const nn::Architecture& each : nn::architectures()) names.push_back(each.name);
  return names;
}

#define FIELD(place) \
  [](auto& o) -> auto& { return o.place; }
#define ENCODED(place) [](const RunOptions& o) { return study::preprocess_options(o.data).place; }

// Limits that keep an analysis or a run finite.
constexpr double kMostProducts = 1LL << 40;
constexpr double kWidestNetwork = 1 << 30;
constexpr double kLargestPicture = 4096;

// One row per setting, in the order of run.json.
// clang-format off
std::vector<Setting> make_settings() {
  const Values scalings{"minmax", "standard", "none"};
  std::vector<Setting> settings;
  const auto add = [&settings](Setting::Group group, const std::vector<Row>& rows) {
    for (const Row& row : rows) settings.push_back(row.in(group));
  };
  using Group = Setting::Group;
  add(Group::kData, {
    file_setting("file", FIELD(data.file)).says("a CSV file, NumPy arrays, or pictures").first(),
    file_setting("labels", FIELD(data.labels)).of_tables().says("labels of arrays"),
    texts("drop", FIELD(data.csv.drop)).of_tables().says("columns to leave out, separated by commas; quote a name that has a comma", "COLUMN"),
    typed_columns("numeric", data::ColumnType::kNumeric).of_tables().says("columns that must be numbers", "COLUMN"),
    typed_columns("text", data::ColumnType::kText).of_tables().says("columns to read as text, even if they look like numbers", "COLUMN"),
    missing_marks().of_tables().says("marks of missing values besides the empty cell. Default: NA,?,nan", "MARK"),
    toggle("no-header", FIELD(data.csv.header), /*on=*/false).of_tables().says("the first line is data; columns are named column1, column2, ..."),
    delimiter().of_tables().says("field separator; \\t for a tab. Default: found in the first line", "CHAR"),
    decimal().of_tables().among({"point", "comma"}).says("decimal mark of numbers like 1,200, which may be read both ways", "MARK"),
    date_order().of_tables().among({"day-month", "month-day"})
        .says("order of dates like 1/2/2024, which may be read both ways", "ORDER"),
    texts("target", FIELD(data.targets)).of_tables().first()
        .says("columns to learn, separated by commas. Pictures: the class. Arrays: all labels, by default", "COLUMN"),
  });
  add(Group::kTraining, {
    goal().among({"predict", "fit"}).first().says("predict: small errors on new rows. fit: small errors on the training rows. Default: predict, of pictures fit"),
  });
  add(Group::kData, {
    by_goal("missing-target", FIELD(data.missing_target), study::parse_missing_target, [](const RunOptions& o) { return study::missing_target_of(o.data); })
        .of_tables().among({"drop", "error"})
        .says("a row without a target: leave it out, or refuse the file"),
    optional_number("size", FIELD(data.pictures.size)).of_pictures().within(1, kLargestPicture)
        .says("pictures: width and height in pixels. Default: 96; IDX files keep theirs", "N"),
    toggle("grey", FIELD(data.pictures.grey)).of_pictures().says("pictures: one grey channel instead of three colours"),
    toggle("skip-bad", FIELD(data.pictures.skip_bad)).of_pictures()
        .says("pictures: skip damaged files and other files instead of refusing them"),
    text("cache", FIELD(data.pictures.cache)).of_pictures().free().says("pictures: a folder that keeps decoded pictures for the next run", "DIR"),
    number("rows", FIELD(data.rows)).non_negative().says("rows to draw from the file without replacement; 0 takes all"),
    train_fraction().within(0, 1)
        .says("share of the rows to train on; the others validate (fit) or test (predict). Default of predict: all"),
    number("train-rows", FIELD(data.train_rows)).unlisted().positive().says("number of rows to train on, instead of the share"),
    number("test-fraction", FIELD(data.test_fraction)).within(0, 1).says("share of the rows held out as a test set, drawn first"),
    text("group", FIELD(data.group)).of_tables()
        .says("column of groups, not a feature: rows of one group stay on one side of each split", "COLUMN"),
    text("time", FIELD(data.time)).of_tables().says("column of numbers or dates: the latest rows validate, and test", "COLUMN"),
    by_goal("categories", FIELD(data.encoding), data::parse_encoding, ENCODED(encoding)).of_tables().among({"index", "onehot"})
        .says("text as the index of its category, or as one feature for each category"),
    by_goal("max-levels", FIELD(data.max_levels), number_of<int64_t>("max-levels"), ENCODED(max_levels)).of_tables().non_negative()
        .says("most one-hot features of a column, for its most frequent categories; the remaining categories share one feature. 0: no limit"),
    by_goal("missing-numbers", FIELD(data.missing_number), data::parse_missing_number, ENCODED(missing_number)).of_tables().among({"zero", "median"})
        .says("value that replaces a missing number; missing text is a category of its own"),
    by_goal("unknown", FIELD(data.unknown_category), data::parse_unknown_category, ENCODED(unknown_category)).of_tables().among({"error", "missing"})
        .says("a category that training has not seen: refuse it, or treat it as a rare category (as missing if there is no feature for rare ones)"),
    by_goal("quantiles", FIELD(data.quantiles), number_of<int64_t>("quantiles"), ENCODED(quantiles)).of_tables().non_negative()
        .says("adds piecewise linear features of each number, with knots at N quantiles, 3 or more; 0: off"),
    by_goal("scale", FIELD(data.scaling), data::parse_scaling, ENCODED(scaling)).among(scalings)
        .says("features: minmax, range 1 and mean 0; standard, deviation 1 and mean 0; none"),
    by_goal("clip", FIELD(data.clip), number_of<double>("clip"), ENCODED(clip)).of_tables().non_negative()
        .says("squashes scaled features smoothly into ±C; 0: off", "C"),
    by_goal("target-scale", FIELD(data.target_scaling), data::parse_scaling, ENCODED(target_scaling)).of_tables().among(scalings)
        .says("scaling of the targets; predictions come back in units of the file"),
    by_goal("target-transform", FIELD(data.target_transform), data::parse_target_transform, ENCODED(target_transform))
        .of_tables().among({"auto", "none", "log"})
        .says("learn the logarithm of the targets: auto, if they are positive and skewed; none; log, always. Predictions come back in units of the file"),
    by_goal("fit", FIELD(data.fit), study::parse_fit, [](const RunOptions& o) { return study::fit_of(o.data); }).among({"train", "seen", "all"})
        .says("rows that fit the scaling: training rows, training and validation rows, or the whole file"),
    texts("keep", FIELD(data.keep)).of_tables().says("columns to learn from, even if they look like identifiers or are constant", "COLUMN"),
    text("sample-weights", FIELD(data.sample_weights)).of_tables()
        .says("column of positive sample weights, not a feature: in the controller's Q, or in the objective of a --form. With --goal predict "
              "also in scales and validation; 0 leaves a row out", "COLUMN"),
    texts("class-weights", FIELD(data.class_weights)).of_tables()
        .says("predict: balanced (rare classes weigh as much as frequent ones), or NAME=WEIGHT separated by commas; other classes weigh "
              "1", "WEIGHTS"),
  });
  add(Group::kModel, {
    architecture().among(architecture_names()).first()
        .says("mlp: dense layers. Pictures: cnn (default), or alexnet and resnet18 as published"),
    numbers("hidden", FIELD(network.hidden)).positive().first().says("widths of the hidden layers, separated by commas; channels of a cnn (32,64)", "N"),
    named("activation", FIELD(network.activation), nn::parse_activation).among({"relu", "tanh", "gelu", "softplus", "erf"}).says("between layers"),
    named("parametrization", FIELD(network.parametrization), nn::parse_parametrization).among({"standard", "ntk", "improved"})
        .says("how weights are drawn and scaled"),
    number("sigma-w", FIELD(network.sigma_w)).non_negative().says("σ_w: weights are drawn with variance σ_w²/n"),
    number("sigma-b", FIELD(network.sigma_b)).non_negative().says("σ_b: biases are drawn with variance σ_b²"),
    number("width-factor", FIELD(network.width_factor)).within(1, kWidestNetwork).says("s: multiplies the hidden widths"),
    dtype().among({"float32", "float64"}).says("the network's precision"),
  });
  add(Group::kTraining, {
    of_table("method", FIELD(training.method)).first().says(train::Method::summaries()),
    loss_setting().first()
        .says("mse, half-mse, sse; huber:δ for outliers (δ in standard deviations, default 1); quantile:q; poisson: counts; cross-entropy: the target is a class, "
              "text or whole numbers (default of --goal predict for text and for two values); mae: without control only"),
    optional_number("smoothing", FIELD(training.smoothing)).within(0, 1)
        .says("label smoothing: trains on (1 - ε)·label + ε/classes. Default: 0.1 for guarded and cdt, which need it, else 0", "ε"),
    optional_number("lr", FIELD(training.learning_rate)).positive().first().says("learning rate α. Default: found from the kernel"),
    schedule().among({"constant", "inverse", "exponential", "cosine", "step"})
        .says("learning rate schedule; inverse is α/(1 + decay·k)"),
    decay().non_negative().says("decay rate of the schedule. Implies --schedule inverse if no schedule is given. Default: 0.01, of step 0.5"),
    number("decay-period", FIELD(training.schedule.period)).positive().says("schedule step: steps between two decays"),
  });
  add(Group::kControl, {
    number("p", FIELD(training.p)).positive().first().says("weight on label augments, R = pI: smaller steers harder"),
    number("q", FIELD(training.q)).positive().says("weight on errors, Q = qI"),
    controller(),
    number("shape", FIELD(training.shape)).non_negative()
        .says("spectral shaping: lowers q on modes with an eigenvalue below this share of the largest, where noise is learned; 0: off"),
    numbers("output-weights", FIELD(data.output_weights)).positive()
        .says("weights of the targets in the loss (cdt: in the controller's Q), separated by commas"),
    relinearize().says("when to recompute the kernel: never, every:N, kc, error:TOL or guard. Default: guard for guarded, never for cdt"),
    number("curvature-products", FIELD(training.curvature_products)).unlisted().within(0, kMostProducts)
        .says("--relinearize kc: most products with second derivatives for the norm of ∂²ŷ/∂θ², for each kernel; 0: 400, or 60 of a large "
              "network"),
    of_table("form", FIELD(training.form))
        .says("solver of a step, for --goal predict and for guarded runs without --lr. " + train::Form::summaries() +
              ". Guarded runs on classes have a controller while rows are few"),
  });
  add(Group::kTraining, {
    number("weight-decay", FIELD(training.weight_decay)).non_negative().says("adds ½·decay·‖θ‖² to the objective"),
    number("batch", FIELD(training.batch)).unlisted().non_negative()
        .says("samples of a step; 0 takes all. Default: all where a linearization takes seconds, else as many as fit into one second; "
              "500 residuals by --form batch; all by the other forms"),
    toggle("reshuffle", FIELD(training.reshuffle)).says("draws new batches each epoch; by default batches recur and their controllers are kept"),
    number("steps", FIELD(training.steps)).free().non_negative().first().says("most training steps"),
    number("stop-loss", FIELD(training.stop_loss)).free().non_negative().says("stops at this training loss; 0: never"),
    number("patience", FIELD(training.patience)).free().non_negative()
        .says("stops after N steps without a better validation loss, and keeps the best weights; 0: off"),
    number("plateau", FIELD(training.plateau)).free().non_negative().says("stops after N steps without a training loss lower by 0.01 %; 0: off"),
    number("max-seconds", FIELD(training.max_seconds)).free().non_negative().says("stops after this time; 0: no limit"),
    number("validate-every", FIELD(training.validate_every)).positive().says("steps between validation losses"),
  });
  add(Group::kOutput, {
    toggle("linearization-error", FIELD(training.linearization_error))
        .says("records the distance between the network and its local model (a Jacobian-vector product a step)"),
  });
  add(Group::kMachine, {
    memory().free().within(0, kMostProducts).says("memory for the kernel's computation, in MB"),
  });
  add(Group::kOutput, {
    number("checkpoint-seconds", FIELD(training.checkpoint_seconds)).non_negative().says("seconds between checkpoints"),
  });
  add(Group::kTraining, {
    number("seed", FIELD(training.seed)).non_negative().first().says("seed of rows, split, network and batches"),
    toggle("tune", FIELD(tune)).says("takes the learning rate, p and the number of steps from the forecast of the analysis, unless given"),
    optional_number("ensemble", FIELD(ensemble)).of_tables().within(1, study::kMostMembers)
        .says("predict: networks trained on all rows and averaged. Default: as many as fill about ten seconds, up to 12"),
    number("folds", FIELD(folds)).of_tables().unlisted().within(2, study::kMostMembers)
        .says("predict: folds of cross-validation that choose the point of the path. Default: one for each member, at least 4. Where "
              "only one member is planned, networks share one held-out part"),
    toggle("no-refit", FIELD(refit), /*on=*/false).of_tables()
        .says("predict: keeps the networks of cross-validation instead of training on all rows"),
  });
  add(Group::kOutput, {
    toggle("importance", FIELD(importance)).of_tables().free()
        .says("predict: reports permutation importance of the columns, on held-out rows"),
    toggle("no-intervals", FIELD(intervals), /*on=*/false).of_tables()
        .says("predict: saves no copy of the encoded training rows, which cdt predict --interval needs"),
    toggle("no-analysis", FIELD(analysis), /*on=*/false).free().says("trains without the pre-flight report"),
    toggle("csv-safe", FIELD(csv_safe)).free()
        .says("written CSV files: puts an apostrophe before names and classes that a spreadsheet would take for a formula"),
  });
  add(Group::kMachine, {
    toggle("tf32", FIELD(tf32)).says("on a GPU: training may round products to TF32, three digits and faster; kernels never are"),
    device().free().first().says("cpu or cuda"),
    number("threads", FIELD(threads)).free().says("CPU threads; 0: all cores, or one for small batches of --form batch or of an optimizer"),
  });
  return settings;
}
// clang-format on

#undef ENCODED
#undef FIELD

}  // namespace

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> settings = make_settings();
  return settings;
}

const Setting& find_setting(const std::string& name) {
  for (const Setting& setting : all_settings()) {
    if (setting.name == name) return setting;
  }
  throw InvalidArgument(c10::str("there is no setting '", name, "'"));
}

}  // namespace cdt::study
