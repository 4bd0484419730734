// The table of settings: where each lives in the options, and how it is spelled.
#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/run/settings.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace cdt::run {
namespace {

using Values = std::vector<std::string>;

const std::string& single(const Values& values, const std::string& name) {
  CDT_REQUIRE(values.size() == 1, name, ": expected one value, but came ", values.size());
  return values[0];
}

template <class T>
T parse_number(const std::string& text, const std::string& name,
               T highest = std::numeric_limits<T>::max()) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                  std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>;
  char* end = nullptr;
  Wide value{};
  errno = 0;
  if constexpr (std::is_floating_point_v<T>) {
    value = std::strtod(text.c_str(), &end);
    if (std::abs(value) < 1) errno = 0;  // as near to zero as doubles come
  } else if constexpr (std::is_unsigned_v<T>) {
    value = std::strtoull(text.c_str(), &end, 0);
    if (text.find('-') != std::string::npos) errno = ERANGE;
  } else {
    value = std::strtoll(text.c_str(), &end, 0);
    if (value < std::numeric_limits<T>::min()) errno = ERANGE;
  }
  CDT_REQUIRE(!text.empty() && end == text.c_str() + text.size(), name,
              ": expected a number, but came ", excerpt(text));
  const bool fits = errno != ERANGE && (std::is_floating_point_v<T> || value <= Wide{highest});
  CDT_REQUIRE(fits, name, ": expected a number within ", sizeof(T) * 8, " bits, but came ", text);
  return static_cast<T>(value);
}

/// Lists of numbers may stand in one text with commas between, as defaults do. (Names of columns
/// stand one by one: they may have commas of their own.)
Values split_list(const Values& values) {
  Values items;
  for (const std::string& text : values) {
    for (size_t first = 0; first <= text.size();) {
      const size_t last = std::min(text.find(',', first), text.size());
      items.push_back(text.substr(first, last - first));
      first = last + 1;
    }
  }
  return items;
}

// Below, `field` gives the place in the options: a reference, of constant options too.

template <class Field>
Setting number(const std::string& name, Field field, bool may_change = false) {
  using T = std::decay_t<decltype(field(std::declval<Options&>()))>;
  return {name, [field](const Options& o) { return Values{fmt::format("{}", field(o))}; },
          [field, name](Options& o, const Values& values) {
            field(o) = parse_number<T>(single(values, name), name);
          },
          may_change};
}

/// A number that is not there unless somebody chose it.
template <class Field>
Setting optional_number(const std::string& name, Field field) {
  return {name,
          [field](const Options& o) -> std::optional<Values> {
            if (!field(o)) return std::nullopt;
            return Values{fmt::format("{}", *field(o))};
          },
          [field, name](Options& o, const Values& values) {
            field(o) = parse_number<double>(single(values, name), name);
          }};
}

template <class Field>
Setting optional_count(const std::string& name, Field field) {
  return {name,
          [field](const Options& o) -> std::optional<Values> {
            if (!field(o)) return std::nullopt;
            return Values{fmt::format("{}", *field(o))};
          },
          [field, name](Options& o, const Values& values) {
            field(o) = parse_number<int64_t>(single(values, name), name);
          }};
}

template <class Field>
Setting toggle(const std::string& name, Field field, bool on = true, bool may_change = false) {
  return {name,
          [field, on](const Options& o) -> std::optional<Values> {
            if (field(o) != on) return std::nullopt;
            return Values{};
          },
          [field, on](Options& o, const Values&) { field(o) = on; }, may_change};
}

template <class Field, class Parse>
Setting named(const std::string& name, Field field, Parse parse) {
  return {name, [field](const Options& o) { return Values{to_string(field(o))}; },
          [field, parse, name](Options& o, const Values& values) {
            field(o) = parse(single(values, name));
          }};
}

template <class Field>
Setting text(const std::string& name, Field field) {
  return {name,
          [field](const Options& o) -> std::optional<Values> {
            if (field(o).empty()) return std::nullopt;
            return Values{field(o)};
          },
          [field, name](Options& o, const Values& values) { field(o) = single(values, name); }};
}

template <class Field>
Setting texts(const std::string& name, Field field) {
  return {name,
          [field](const Options& o) -> std::optional<Values> {
            if (field(o).empty()) return std::nullopt;
            return field(o);
          },
          [field](Options& o, const Values& values) { field(o) = values; }};
}

template <class Field>
Setting numbers(const std::string& name, Field field) {
  using T = typename std::decay_t<decltype(field(std::declval<Options&>()))>::value_type;
  return {name,
          [field](const Options& o) -> std::optional<Values> {
            if (field(o).empty()) return std::nullopt;
            Values values;
            for (const T& each : field(o)) values.push_back(fmt::format("{}", each));
            return values;
          },
          [field, name](Options& o, const Values& values) {
            field(o).clear();
            for (const std::string& each : split_list(values)) {
              field(o).push_back(parse_number<T>(each, name));
            }
          }};
}

/// A resumed run may find its data elsewhere, or in another pipe: their checksum must be the same.
template <class Field>
Setting file_setting(const std::string& name, Field field) {
  return {name,
          [field](const Options& o) -> std::optional<Values> {
            if (field(o).empty()) return std::nullopt;
            return Values{std::filesystem::absolute(field(o)).lexically_normal().string()};
          },
          [field, name](Options& o, const Values& values) { field(o) = single(values, name); },
          /*may_change=*/true};
}

/// Columns of a type that the content does not decide.
Setting typed_columns(const std::string& name, data::ColumnType type) {
  return {name,
          [type](const Options& o) -> std::optional<Values> {
            Values columns;
            for (const auto& [column, wanted] : o.data.csv.types) {
              if (wanted == type) columns.push_back(column);
            }
            if (columns.empty()) return std::nullopt;
            return columns;
          },
          [type](Options& o, const Values& values) {
            for (const std::string& column : values) o.data.csv.types[column] = type;
          }};
}

Setting missing_marks() {
  return {"missing",
          [](const Options& o) -> std::optional<Values> {
            if (o.data.csv.missing_marks == data::CsvOptions().missing_marks) return std::nullopt;
            return o.data.csv.missing_marks;
          },
          [](Options& o, const Values& values) { o.data.csv.missing_marks = values; }};
}

Setting delimiter() {
  return {"delimiter",
          [](const Options& o) {
            const char c = o.data.csv.delimiter.value_or(',');
            return Values{c == '\t' ? std::string("\\t") : std::string(1, c)};
          },
          [](Options& o, const Values& values) {
            const std::string between = single(values, "delimiter");
            CDT_REQUIRE(between.size() == 1 || between == "\\t",
                        "delimiter: expected one character, but came '", between, "'");
            o.data.csv.delimiter = between == "\\t" ? '\t' : between[0];
          }};
}

/// A choice that the goal makes where nobody has: `chosen` says which, of constant options.
template <class Field, class Parse, class Chosen>
Setting by_goal(const std::string& name, Field field, Parse parse, Chosen chosen) {
  return {name,
          [chosen](const Options& o) {
            if constexpr (std::is_arithmetic_v<decltype(chosen(o))>) {
              return Values{fmt::format("{}", chosen(o))};
            } else {
              return Values{to_string(chosen(o))};
            }
          },
          [field, parse, name](Options& o, const Values& values) {
            field(o) = parse(single(values, name));
          }};
}

template <class T>
auto number_of(const std::string& name) {
  return [name](const std::string& text) { return parse_number<T>(text, name); };
}

/// Answers to what the values of a column leave open.
Setting decimal() {
  return {"decimal",
          [](const Options& o) -> std::optional<Values> {
            if (o.data.csv.decimal == 0) return std::nullopt;
            return Values{o.data.csv.decimal == ',' ? "comma" : "point"};
          },
          [](Options& o, const Values& values) {
            o.data.csv.decimal = data::parse_decimal(single(values, "decimal"));
          }};
}
Setting date_order() {
  return {"dates",
          [](const Options& o) -> std::optional<Values> {
            if (!o.data.csv.dates) return std::nullopt;
            return Values{to_string(*o.data.csv.dates)};
          },
          [](Options& o, const Values& values) {
            o.data.csv.dates = data::parse_date_order(single(values, "dates"));
          }};
}

Setting schedule() {
  return {"schedule", [](const Options& o) { return Values{to_string(o.training.schedule.kind)}; },
          [](Options& o, const Values& values) {
            train::Schedule& schedule = o.training.schedule;
            schedule.kind = train::parse_schedule(single(values, "schedule"));
            if (schedule.kind == train::Schedule::Kind::kStep) schedule.decay = 0.5;
          }};
}

/// Comes after the schedule, and alone it means `inverse`.
Setting decay() {
  using Kind = train::Schedule::Kind;
  return {"decay",
          [](const Options& o) -> std::optional<Values> {
            const train::Schedule& schedule = o.training.schedule;
            const double usual = schedule.kind == Kind::kStep ? 0.5 : 0.01;
            if (schedule.kind == Kind::kConstant || schedule.decay == usual) return std::nullopt;
            return Values{fmt::format("{}", schedule.decay)};
          },
          [](Options& o, const Values& values) {
            train::Schedule& schedule = o.training.schedule;
            schedule.decay = parse_number<double>(single(values, "decay"), "decay");
            if (!o.given.contains("schedule")) schedule.kind = Kind::kInverse;
          }};
}

/// Under predict all rows are learned from unless it is told.
Setting train_fraction() {
  return {"train-fraction",
          [](const Options& o) -> std::optional<Values> {
            if (o.data.goal == study::Goal::kPredict && !o.data.train_fraction) return std::nullopt;
            return Values{fmt::format("{}", study::train_fraction_of(o.data))};
          },
          [](Options& o, const Values& values) {
            o.data.train_fraction =
                parse_number<double>(single(values, "train-fraction"), "train-fraction");
          }};
}

Setting relinearize() {
  return {"relinearize",
          [](const Options& o) -> std::optional<Values> {
            if (!o.training.relinearize) return std::nullopt;
            return Values{to_string(*o.training.relinearize)};
          },
          [](Options& o, const Values& values) {
            o.training.relinearize = train::parse_relinearization(single(values, "relinearize"));
          }};
}

Setting memory() {
  return {"memory",
          [](const Options& o) { return Values{fmt::format("{}", o.training.memory_bytes >> 20)}; },
          [](Options& o, const Values& values) {
            constexpr int64_t kMost = std::numeric_limits<int64_t>::max() >> 20;
            o.training.memory_bytes =
                parse_number<int64_t>(single(values, "memory"), "memory", kMost) << 20;
          },
          /*may_change=*/true};
}

Setting dtype() {
  return {"dtype", [](const Options& o) { return Values{study::dtype_name(o.network.dtype)}; },
          [](Options& o, const Values& values) {
            o.network.dtype = study::parse_dtype(single(values, "dtype"));
          }};
}

Setting device() {
  return {"device", [](const Options& o) { return Values{o.device.str()}; },
          [](Options& o, const Values& values) {
            const std::string name = single(values, "device");
            const bool numbered = name.starts_with("cuda:") && name.size() > 5 && name.size() < 8 &&
                                  name.find_first_not_of("0123456789", 5) == std::string::npos;
            CDT_REQUIRE(name == "cpu" || name == "cuda" || numbered,
                        "device: expected cpu, cuda or cuda:N, but came ", excerpt(name));
            o.device = torch::Device(name);
          },
          /*may_change=*/true};
}

/// A folder that names none is a fit.
Setting goal() {
  return {"goal",
          [](const Options& o) {
            return Values{study::to_string(o.data.goal.value_or(study::Goal::kFit))};
          },
          [](Options& o, const Values& values) {
            o.data.goal = study::parse_goal(single(values, "goal"));
          }};
}

Setting may_change(Setting setting) {
  setting.may_change = true;
  return setting;
}

/// One whose usual value would say nothing.
Setting unlisted(Setting setting) {
  setting.listed = false;
  return setting;
}

Setting about(Setting::About what, Setting setting) {
  setting.about = what;
  return setting;
}
Setting of_tables(Setting setting) { return about(Setting::About::kTables, std::move(setting)); }
Setting of_pictures(Setting setting) {
  return about(Setting::About::kPictures, std::move(setting));
}

/// Comes before the hidden layers, which it clears.
Setting architecture() {
  return {"arch", [](const Options& o) { return Values{o.network.architecture}; },
          [](Options& o, const Values& values) { o.network.choose(single(values, "arch")); }};
}

#define FIELD(place) \
  [](auto& o) -> auto& { return o.place; }
#define ENCODED(place) [](const Options& o) { return study::preprocess_options(o.data).place; }

std::vector<Setting> make_settings() {
  constexpr bool kMayChange = true;
  return {
      file_setting("file", FIELD(data.file)),
      of_tables(file_setting("labels", FIELD(data.labels))),
      of_tables(texts("drop", FIELD(data.csv.drop))),
      of_tables(typed_columns("numeric", data::ColumnType::kNumeric)),
      of_tables(typed_columns("text", data::ColumnType::kText)),
      of_tables(missing_marks()),
      of_tables(toggle("no-header", FIELD(data.csv.header), /*on=*/false)),
      of_tables(delimiter()),
      of_tables(decimal()),
      of_tables(date_order()),
      of_tables(texts("target", FIELD(data.targets))),
      goal(),
      of_tables(by_goal("missing-target", FIELD(data.missing_target), study::parse_missing_target,
                        [](const Options& o) { return study::missing_target_of(o.data); })),
      of_pictures(optional_count("size", FIELD(data.pictures.size))),
      of_pictures(toggle("grey", FIELD(data.pictures.grey))),
      of_pictures(toggle("skip-bad", FIELD(data.pictures.skip_bad))),
      of_pictures(may_change(text("cache", FIELD(data.pictures.cache)))),
      number("rows", FIELD(data.rows)),
      train_fraction(),
      unlisted(number("train-rows", FIELD(data.train_rows))),
      number("test-fraction", FIELD(data.test_fraction)),
      of_tables(text("group", FIELD(data.group))),
      of_tables(text("time", FIELD(data.time))),
      of_tables(
          by_goal("categories", FIELD(data.encoding), data::parse_encoding, ENCODED(encoding))),
      of_tables(by_goal("max-levels", FIELD(data.max_levels), number_of<int64_t>("max-levels"),
                        ENCODED(max_levels))),
      of_tables(by_goal("missing-numbers", FIELD(data.missing_number), data::parse_missing_number,
                        ENCODED(missing_number))),
      of_tables(by_goal("unknown", FIELD(data.unknown_category), data::parse_unknown_category,
                        ENCODED(unknown_category))),
      of_tables(by_goal("quantiles", FIELD(data.quantiles), number_of<int64_t>("quantiles"),
                        ENCODED(quantiles))),
      by_goal("scale", FIELD(data.scaling), data::parse_scaling, ENCODED(scaling)),
      of_tables(by_goal("clip", FIELD(data.clip), number_of<double>("clip"), ENCODED(clip))),
      of_tables(by_goal("target-scale", FIELD(data.target_scaling), data::parse_scaling,
                        ENCODED(target_scaling))),
      of_tables(by_goal("target-transform", FIELD(data.target_transform),
                        data::parse_target_transform, ENCODED(target_transform))),
      by_goal("fit", FIELD(data.fit), study::parse_fit,
              [](const Options& o) { return study::fit_of(o.data); }),
      of_tables(texts("keep", FIELD(data.keep))),
      of_tables(text("sample-weights", FIELD(data.sample_weights))),
      of_tables(texts("class-weights", FIELD(data.class_weights))),
      architecture(),
      numbers("hidden", FIELD(network.hidden)),
      named("activation", FIELD(network.activation), nn::parse_activation),
      named("parametrization", FIELD(network.parametrization), nn::parse_parametrization),
      number("sigma-w", FIELD(network.sigma_w)),
      number("sigma-b", FIELD(network.sigma_b)),
      number("width-factor", FIELD(network.width_factor)),
      dtype(),
      named("method", FIELD(training.method), train::parse_method),
      named("loss", FIELD(training.loss), loss::parse),
      optional_number("smoothing", FIELD(training.smoothing)),
      optional_number("lr", FIELD(training.learning_rate)),
      schedule(),
      decay(),
      number("decay-period", FIELD(training.schedule.period)),
      number("p", FIELD(training.p)),
      number("q", FIELD(training.q)),
      number("shape", FIELD(training.shape)),
      numbers("output-weights", FIELD(data.output_weights)),
      relinearize(),
      unlisted(number("curvature-products", FIELD(training.curvature_products))),
      named("form", FIELD(training.form), train::parse_form),
      number("weight-decay", FIELD(training.weight_decay)),
      unlisted(number("batch", FIELD(training.batch))),
      toggle("reshuffle", FIELD(training.reshuffle)),
      number("steps", FIELD(training.steps), kMayChange),
      number("stop-loss", FIELD(training.stop_loss), kMayChange),
      number("patience", FIELD(training.patience), kMayChange),
      number("plateau", FIELD(training.plateau), kMayChange),
      number("max-seconds", FIELD(training.max_seconds), kMayChange),
      number("validate-every", FIELD(training.validate_every)),
      toggle("linearization-error", FIELD(training.linearization_error)),
      memory(),
      number("checkpoint-seconds", FIELD(training.checkpoint_seconds)),
      number("seed", FIELD(training.seed)),
      toggle("tune", FIELD(tune)),
      of_tables(optional_count("ensemble", FIELD(ensemble))),
      of_tables(unlisted(number("folds", FIELD(folds)))),
      of_tables(toggle("no-refit", FIELD(refit), /*on=*/false)),
      of_tables(toggle("importance", FIELD(importance), /*on=*/true, kMayChange)),
      of_tables(toggle("no-intervals", FIELD(intervals), /*on=*/false)),
      toggle("no-analysis", FIELD(analysis), /*on=*/false, kMayChange),
      toggle("csv-safe", FIELD(csv_safe), /*on=*/true, kMayChange),
      toggle("tf32", FIELD(tf32)),
      device(),
      number("threads", FIELD(threads), kMayChange),
  };
}

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

}  // namespace cdt::run
