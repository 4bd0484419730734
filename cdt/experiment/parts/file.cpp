#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/experiment/parts/file.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace cdt::experiment {
namespace {

std::string spell(const JsonValue& value) {
  const auto& raw = value.raw();
  if (raw.is_string()) return value.text();
  if (raw.is_number_integer()) return fmt::format("{}", value.whole());
  if (raw.is_number()) return fmt::format("{}", value.number());
  std::string list;
  if (raw.is_array()) {
    for (const JsonValue& item : value.list()) list += (list.empty() ? "" : ", ") + spell(item);
  }
  return list;
}

int64_t positive_count(const JsonValue& value) { return value.whole(1); }

double positive_number(const JsonValue& value) {
  if (!(value.number() > 0)) value.refuse("a number above 0");
  return value.number();
}

double share_of(const JsonValue& value) {
  if (!(value.number() > 0 && value.number() < 1)) value.refuse("a share between 0 and 1");
  return value.number();
}

/// Applies `read` to each entry of a non-empty list.
template <class Read>
auto filled_list(const JsonValue& list, Read read) {
  std::vector<decltype(read(list))> values;
  for (const JsonValue& each : list.list()) values.push_back(read(each));
  if (values.empty()) list.refuse("a list that is not empty");
  return values;
}

std::vector<double> rates_of(const JsonValue& list) { return filled_list(list, positive_number); }

std::vector<std::string> methods_of(const JsonValue& list) {
  return filled_list(list, [](const JsonValue& each) {
    return each.name([](const std::string& name) {
      if (name != kGdBest) train::Method{name};
      return name;
    });
  });
}

Architecture read_architecture(const JsonValue& each) {
  Architecture architecture;
  architecture.name = each["name"].name([](const std::string& name) {
    require_file_name(name, "the name of an architecture");
    return name;
  });
  if (each["arch"].exists()) {
    architecture.network = each["arch"].name([](const std::string& name) {
      return nn::find_architecture(nn::architectures(), name).name;
    });
    if (!each["hidden"].exists()) return architecture;
  }
  for (const JsonValue& width : each["hidden"].list()) {
    architecture.hidden.push_back(width.whole(1, std::numeric_limits<int32_t>::max()));
  }
  return architecture;
}

/// Settings of experiments on tables, on pictures, and on both.
constexpr std::array kOfBoth{
    "rows",    "scale", "fit",   "activation", "parametrization", "sigma-w",
    "sigma-b", "dtype", "loss",  "schedule",   "decay",           "q",
    "p",       "steps", "seeds", "lrs",        "methods",         "validate-every"};
constexpr std::array kOfTables{"target",          "drop",        "train-rows", "categories",
                               "missing-numbers", "target-scale"};
constexpr std::array kOfPictures{"size", "train-fraction"};

/// Rejects unknown settings: one that nothing reads would appear in the report as if it had been
/// followed.
void require_known(const JsonValue& settings, bool pictures) {
  if (!settings.exists()) return;  // its reader reports what is missing
  for (const auto& [name, each] : settings.members()) {
    const auto among = [&, &name = name](const auto& names) {
      return std::ranges::find(names, name) != names.end();
    };
    CDT_REQUIRE(among(kOfBoth) || (pictures ? among(kOfPictures) : among(kOfTables)), each.where(),
                ": an experiment on ", pictures ? "pictures" : "a table",
                " does not read it; leave it out");
  }
}

}  // namespace

Plan read_plan(const JsonValue& experiment) {
  Plan plan;
  plan.kind = "reproduce";
  plan.title = experiment["title"].text();
  const auto setting = [&](const char* name) { return experiment["settings"][name]["value"]; };
  plan.data.equal_rows_together = false;  // the paper splits by row
  plan.data.is_pictures = setting("size").exists();
  require_known(experiment["settings"], plan.data.is_pictures);
  if (!plan.data.is_pictures) plan.data.targets = {setting("target").text()};
  plan.data.rows = setting("rows").count();
  plan.data.scaling = setting("scale").name(data::parse_scaling);
  if (plan.data.is_pictures) {
    plan.data.pictures.size = setting("size").whole(1, 4096);
    plan.data.train_fraction = share_of(setting("train-fraction"));
    plan.errors = true;
  } else {
    plan.data.csv.drop = setting("drop").texts();
    plan.data.train_rows = setting("train-rows").count();
    plan.data.encoding = setting("categories").name(data::parse_encoding);
    plan.data.missing_number = setting("missing-numbers").name(data::parse_missing_number);
    plan.data.target_scaling = setting("target-scale").name(data::parse_scaling);
  }
  if (experiment["loss_unit"].exists()) {
    plan.loss_unit = positive_number(experiment["loss_unit"]);
  }
  plan.data.fit = setting("fit").name(study::parse_fit);
  plan.network.activation = setting("activation").name(nn::parse_activation);
  plan.network.parametrization = setting("parametrization").name(nn::parse_parametrization);
  plan.network.sigma_w = setting("sigma-w").number();
  plan.network.sigma_b = setting("sigma-b").number();
  plan.network.dtype = setting("dtype").name(study::parse_dtype);
  plan.loss = setting("loss").name(loss::parse);
  plan.schedule.kind = setting("schedule").name(train::parse_schedule);
  plan.schedule.decay = setting("decay").number();
  plan.q = positive_number(setting("q"));
  plan.p = positive_number(setting("p"));
  plan.steps = positive_count(setting("steps"));
  plan.seeds = positive_count(setting("seeds"));
  plan.validate_every = positive_count(setting("validate-every"));
  plan.lrs = rates_of(setting("lrs"));
  plan.methods = methods_of(setting("methods"));
  plan.architectures = filled_list(experiment["architectures"], read_architecture);
  if (const JsonValue rates = experiment["rates"]; rates.exists()) {
    plan.further.lrs = rates_of(rates["lrs"]);
    plan.further.methods = methods_of(rates["methods"]);
    plan.further.seeds = positive_count(rates["seeds"]);
    plan.further.steps = positive_count(rates["steps"]);
  }
  if (const JsonValue weights = experiment["weights"]; weights.exists()) {
    plan.weights.p = rates_of(weights["p"]);
    plan.weights.architecture = weights["architecture"].text();
    plan.weights.lr = positive_number(weights["lr"]);
    plan.weights.seeds = positive_count(weights["seeds"]);
  }
  if (const JsonValue samples = experiment["samples"]; samples.exists()) {
    plan.samples.architecture = samples["architecture"].text();
    plan.samples.lr = positive_number(samples["lr"]);
  }
  for (const auto& [name, each] : experiment["settings"].members()) {
    if (!each["value"].exists()) {
      each["value"].refuse("a value: { value = …, source = \"ours\" }");
    }
    plan.settings.push_back(
        {name, spell(each["value"]), each["source"].text_or("ours"), each["note"].text_or("")});
  }
  return plan;
}

Plan parse_plan(std::string_view json, const std::string& source) {
  return read_plan(parse_json(json, source));
}

}  // namespace cdt::experiment
