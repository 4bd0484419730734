// cdt reproduce: the paper's experiments compared with the published values.
#include <cdt/core/error.h>
#include <cdt/experiment/parts/file.h>
#include <cdt/study/parts/pictures.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/experiments.h"
#include "cli/sweep.h"
#include "cli/toml_file.h"

namespace cdt::cli {
namespace {

struct ReproduceCommand {
  SweepOptions sweep;
  experiment::Plan axes;  ///< from the command line
  std::string name;
  std::string data;
  std::string experiment_file;
  std::vector<std::string> archs;
  bool table_only = false;
  const CLI::App* app = nullptr;
};

/// Options of the command line replace those of the experiment.
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
  // If single methods were requested, do not run the others.
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

/// The built-in experiments.
JsonValue built_in(const std::string& name) {
  CDT_REQUIRE(name == "ames" || name == "pets", "expected an experiment, ames or pets, got '", name,
              "'");
  const bool ames = name == "ames";
  return parse_built_in(ames ? kAmesExperiment : kPetsExperiment, "experiments/" + name + ".toml");
}

/// Generated pictures, as many as the cats and dogs of our measurements.
data::Table stand_in(experiment::Plan& plan) {
  constexpr int64_t kPictures = 600;
  plan.data.file = "generated";
  plan.title += " (generated discs and squares in their place: --data names a folder of pictures)";
  return study::generated_pictures(std::max(kPictures, plan.data.rows), 1,
                                   plan.data.pictures.size.value_or(study::kUsualSide));
}

int run_reproduce(ReproduceCommand& options) {
  const JsonValue built = built_in(options.name);
  const bool own = !options.experiment_file.empty();
  const JsonValue content = own ? read_toml(options.experiment_file) : built;
  experiment::Plan plan = experiment::read_plan(content);
  paper::Published published = paper::read_published(content);
  if (options.app->count("--out") == 0) options.sweep.out = options.name;
  plan.data.file = options.data;
  override_axes(plan, options);
  if (options.data.empty()) {
    CDT_REQUIRE(plan.data.is_pictures, "--data is required: the table, AmesHousing.csv");
    published = {};  // these are for other pictures
    const data::Table table = stand_in(plan);
    return run_sweep(plan, table, published, options.sweep);
  }
  CDT_REQUIRE(plan.data.is_pictures == study::holds_pictures(options.data), options.data,
              plan.data.is_pictures ? ": expected a folder of pictures, with a folder a class"
                                    : ": expected a table, but it holds pictures");
  plan.data.pictures.progress = [show =
                                     progress("pictures", "decoded", options.sweep.output.quiet)](
                                    int64_t done, int64_t total) { show(done, total, ""); };
  const data::Table table = study::read_table(plan.data);
  return run_sweep(plan, table, published, options.sweep);
}

}  // namespace

std::function<int()> setup_reproduce(CLI::App& app) {
  auto options = std::make_shared<ReproduceCommand>();
  options->app = &app;
  app.add_option("EXPERIMENT", options->name,
                 "ames: Tables a1 to a3, house prices; pets: Table alex, cats and dogs")
      ->required();
  app.add_option("--data", options->data,
                 "ames: AmesHousing.csv; pets: a folder with the folders cat and dog, or none: "
                 "generated pictures")
      ->type_name(kInputFile);
  app.add_option("--archs", options->archs,
                 "architectures of the experiment, such as 1,3; default: all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME");
  add_sweep_axes(app, options->axes);
  app.add_flag("--table-only", options->table_only,
               "leave out what goes beyond the tables: further rates, other weights p");
  app.add_option("--experiment", options->experiment_file,
                 "settings from this file instead of experiments/ames.toml or pets.toml, which are "
                 "built in")
      ->type_name(kInputFile);
  options->sweep.add_to(app, "ames");
  app.footer(
      "The paper's sweeps. ames: 3 architectures × 4 rates × 10 seeds, 1000 steps, under gradient "
      "descent, CDT and three more methods. pets: AlexNet, 4 rates × 10 seeds, 300 steps, for a "
      "GPU. Runs that --out holds already are not repeated: a killed sweep continues.\n\n"
      "Examples:\n"
      "  cdt reproduce ames --data AmesHousing.csv --out ames\n"
      "  cdt reproduce ames --data AmesHousing.csv --archs 1 --seeds 2 --steps 100 --out quick\n"
      "  cdt reproduce pets --data pets --device cuda --out pets-results");
  return [options] { return run_reproduce(*options); };
}

}  // namespace cdt::cli
