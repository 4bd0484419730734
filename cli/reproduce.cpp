// cdt reproduce: the paper's experiments beside the published values.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "cli/experiments.h"
#include "cli/sweep.h"

namespace cdt::cli {
namespace {

struct ReproduceCommand {
  SweepOptions sweep;
  experiment::Plan axes;  ///< of the command line
  std::string name;
  std::string data;
  std::string experiment_file;
  std::vector<std::string> archs;
  bool table_only = false;
  const CLI::App* app = nullptr;
};

/// The content of an experiment file, with messages that name it.
class Experiment {
 public:
  Experiment(const std::string& text, std::string source) : source_(std::move(source)) {
    try {
      table_ = toml::parse(text, source_);
    } catch (const toml::parse_error& error) {
      throw InvalidArgument(c10::str(source_, ", line ", error.source().begin.line, ": ",
                                     std::string(error.description())));
    }
  }

  const toml::table& table() const { return table_; }

  /// The value at `path`, as "settings.rows.value".
  template <class T>
  T get(const std::string& path) const {
    const auto value = table_.at_path(path).value<T>();
    CDT_REQUIRE(value.has_value(), source_, ": expected a value at ", path);
    return *value;
  }
  template <class T>
  T get_or(const std::string& path, T otherwise) const {
    return table_.at_path(path).value<T>().value_or(otherwise);
  }
  template <class T>
  std::vector<T> list(const std::string& path) const {
    return to_list<T>(table_.at_path(path).as_array(), path);
  }
  template <class T>
  std::vector<T> to_list(const toml::array* array, const std::string& path) const {
    CDT_REQUIRE(array != nullptr, source_, ": expected a list at ", path);
    std::vector<T> values;
    for (const auto& item : *array) {
      const auto value = item.value<T>();
      CDT_REQUIRE(value.has_value(), source_, ": ", path, " holds something else than expected");
      values.push_back(*value);
    }
    return values;
  }
  const std::string& source() const { return source_; }

 private:
  toml::table table_;
  std::string source_;
};

std::string spell(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
  std::string list;
  if (const auto* array = node.as_array()) {
    for (const auto& item : *array) list += (list.empty() ? "" : ", ") + spell(item);
  }
  return list;
}

paper::Published read_published(const Experiment& experiment) {
  paper::Published published;
  published.note = experiment.get_or<std::string>("published.note", "");
  published.closer = experiment.get_or<int64_t>("samples.published_closer", 0);
  published.of_samples = experiment.get_or<int64_t>("samples.published_samples", 0);
  const toml::array* array = experiment.table().at_path("published.rows").as_array();
  if (array == nullptr) return published;
  for (const auto& item : *array) {
    const toml::table* row = item.as_table();
    CDT_REQUIRE(row != nullptr, experiment.source(), ": published rows must be tables");
    const auto architecture = (*row)["architecture"].value<std::string>();
    const auto lr = (*row)["lr"].value<double>();
    const auto method = (*row)["method"].value<std::string>();
    CDT_REQUIRE(architecture && lr && method, experiment.source(),
                ": published rows need architecture and method as text, and lr as a number");
    const auto loss = [&](const char* key) { return (*row)[key].value_or(report::kNotKnown); };
    published.rows.push_back(
        {*architecture,
         *lr,
         *method,
         {{loss("val_mse_mean"), loss("val_mse_std")}, (*row)["converged"].value_or(int64_t{0})}});
  }
  return published;
}

std::vector<experiment::Architecture> read_architectures(const Experiment& experiment) {
  const toml::array* array = experiment.table()["architectures"].as_array();
  CDT_REQUIRE(array != nullptr && !array->empty(), experiment.source(),
              ": expected [[architectures]]");
  std::vector<experiment::Architecture> architectures;
  for (const auto& item : *array) {
    const toml::table* each = item.as_table();
    CDT_REQUIRE(each != nullptr && (*each)["name"].is_string(), experiment.source(),
                ": an architecture needs a name");
    architectures.push_back(
        {*(*each)["name"].value<std::string>(),
         experiment.to_list<int64_t>((*each)["hidden"].as_array(), "architectures.hidden")});
  }
  return architectures;
}

experiment::Plan read_plan(const Experiment& experiment) {
  experiment::Plan plan;
  plan.kind = "reproduce";
  plan.title = experiment.get<std::string>("title");
  const auto text = [&](const std::string& name) {
    return experiment.get<std::string>("settings." + name + ".value");
  };
  const auto number = [&](const std::string& name) {
    return experiment.get<double>("settings." + name + ".value");
  };
  const auto whole = [&](const std::string& name) {
    return experiment.get<int64_t>("settings." + name + ".value");
  };
  plan.data.targets = {text("target")};
  plan.data.csv.drop = experiment.list<std::string>("settings.drop.value");
  plan.data.rows = whole("rows");
  plan.data.train_rows = whole("train-rows");
  plan.data.encoding = data::parse_encoding(text("categories"));
  plan.data.missing_number = data::parse_missing_number(text("missing-numbers"));
  plan.data.scaling = data::parse_scaling(text("scale"));
  plan.data.target_scaling = data::parse_scaling(text("target-scale"));
  plan.data.fit = study::parse_fit(text("fit"));
  plan.network.activation = nn::parse_activation(text("activation"));
  plan.network.parametrization = nn::parse_parametrization(text("parametrization"));
  plan.network.sigma_w = number("sigma-w");
  plan.network.sigma_b = number("sigma-b");
  plan.network.dtype = study::parse_dtype(text("dtype"));
  plan.loss = dynamics::parse_loss(text("loss"));
  plan.schedule.kind = train::parse_schedule(text("schedule"));
  plan.schedule.decay = number("decay");
  plan.q = number("q");
  plan.p = number("p");
  plan.steps = whole("steps");
  plan.seeds = whole("seeds");
  plan.validate_every = whole("validate-every");
  plan.lrs = experiment.list<double>("settings.lrs.value");
  plan.methods = experiment.list<std::string>("settings.methods.value");
  plan.architectures = read_architectures(experiment);
  if (experiment.table().contains("rates")) {
    plan.further.lrs = experiment.list<double>("rates.lrs");
    plan.further.methods = experiment.list<std::string>("rates.methods");
    plan.further.seeds = experiment.get<int64_t>("rates.seeds");
    plan.further.steps = experiment.get<int64_t>("rates.steps");
  }
  if (experiment.table().contains("weights")) {
    plan.weights.p = experiment.list<double>("weights.p");
    plan.weights.architecture = experiment.get<std::string>("weights.architecture");
    plan.weights.lr = experiment.get<double>("weights.lr");
    plan.weights.seeds = experiment.get<int64_t>("weights.seeds");
  }
  if (experiment.table().contains("samples")) {
    plan.samples.architecture = experiment.get<std::string>("samples.architecture");
    plan.samples.lr = experiment.get<double>("samples.lr");
  }
  const toml::table* settings = experiment.table()["settings"].as_table();
  for (const auto& [key, node] : *settings) {
    const toml::table* setting = node.as_table();
    const toml::node* value = setting != nullptr ? setting->get("value") : nullptr;
    CDT_REQUIRE(value != nullptr, experiment.source(), ": the setting ", std::string(key.str()),
                " needs a value: { value = …, source = \"ours\" }");
    plan.settings.push_back({std::string(key.str()), spell(*value),
                             (*setting)["source"].value_or(std::string("ours")),
                             (*setting)["note"].value_or(std::string())});
  }
  return plan;
}

/// What the command line says stands instead of what the experiment says.
void override_axes(experiment::Plan& plan, const ReproduceCommand& options) {
  const CLI::App& app = *options.app;
  const auto mark = [&](const std::string& name, const std::string& value) {
    for (report::Setting& setting : plan.settings) {
      if (setting.name != name || setting.value == value) continue;
      setting.note = fmt::format("{} in the experiment's file", setting.value);
      setting.value = value;
      setting.source = "given";
    }
  };
  if (app.count("--lrs") > 0) {
    plan.lrs = options.axes.lrs;
    mark("lrs", fmt::format("{}", fmt::join(plan.lrs, ", ")));
  }
  if (app.count("--methods") > 0) {
    plan.methods = options.axes.methods;
    mark("methods", fmt::format("{}", fmt::join(plan.methods, ", ")));
  }
  if (app.count("--seeds") > 0) {
    plan.seeds = options.axes.seeds;
    mark("seeds", fmt::format("{}", plan.seeds));
  }
  if (app.count("--steps") > 0) {
    plan.steps = options.axes.steps;
    plan.further.steps = std::min(plan.further.steps, plan.steps);
    mark("steps", fmt::format("{}", plan.steps));
  }
  // Asked for single methods, nobody waits for others.
  const auto among = [&](const std::string& method) {
    return std::find(plan.methods.begin(), plan.methods.end(), method) != plan.methods.end();
  };
  std::erase_if(plan.further.methods, [&](const std::string& method) { return !among(method); });
  if (options.table_only) plan.further.lrs.clear();
  if (options.table_only || !among("cdt")) plan.weights.p.clear();
  if (options.archs.empty()) return;
  std::vector<experiment::Architecture> chosen;
  for (const std::string& name : options.archs) chosen.push_back(plan.architecture(name));
  plan.architectures = chosen;
}

int run_reproduce(ReproduceCommand& options) {
  CDT_REQUIRE(options.name == "ames", "expected an experiment, ames, but came '", options.name,
              "'");
  const bool own = !options.experiment_file.empty();
  const Experiment experiment(
      own ? read_file(options.experiment_file) : std::string(kAmesExperiment),
      own ? options.experiment_file : "experiments/ames.toml");
  experiment::Plan plan = read_plan(experiment);
  const paper::Published published = read_published(experiment);
  plan.data.file = options.data;
  override_axes(plan, options);
  return run_sweep(plan, published, options.sweep);
}

}  // namespace

std::function<int()> setup_reproduce(CLI::App& app) {
  auto options = std::make_shared<ReproduceCommand>();
  options->app = &app;
  app.add_option("EXPERIMENT", options->name, "ames: Tables a1 to a3, house prices")->required();
  app.add_option("--data", options->data, "the table: AmesHousing.csv")
      ->required()
      ->type_name(kInputFile);
  app.add_option("--archs", options->archs,
                 "of the experiment's architectures, 1,2,3; default: all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_sweep_axes(app, options->axes);
  app.add_flag("--table-only", options->table_only,
               "leave out what goes beyond the tables: further rates, other weights p");
  app.add_option("--experiment", options->experiment_file,
                 "settings from this file instead of experiments/ames.toml, which is built in")
      ->type_name(kInputFile);
  options->sweep.add_to(app, "ames");
  app.footer(
      "The paper's sweep: 3 architectures × 4 rates × 10 seeds, 1000 steps, under gradient "
      "descent, "
      "CDT and three more methods. Runs that --out holds already are not repeated: a killed sweep "
      "continues.\n\n"
      "Examples:\n"
      "  cdt reproduce ames --data AmesHousing.csv --out ames\n"
      "  cdt reproduce ames --data AmesHousing.csv --archs 1 --seeds 2 --steps 100 --out quick");
  return [options] { return run_reproduce(*options); };
}

}  // namespace cdt::cli
