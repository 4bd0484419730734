#include <cdt/core/error.h>
#include <cdt/core/format.h>
#include <cdt/run/json_fields.h>
#include <cdt/run/record.h>

#include <cmath>

namespace cdt::run {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "cdt-run-1";

ordered_json settings_json(const Settings& settings) {
  ordered_json json = ordered_json::object();
  for (const auto& [name, values] : settings) {
    json[name] = values.empty()       ? ordered_json(true)
                 : values.size() == 1 ? ordered_json(values[0])
                                      : ordered_json(values);
  }
  return json;
}

Settings parse_settings(const ordered_json& json) {
  Settings settings;
  for (const auto& [name, value] : json.items()) {
    if (value.is_boolean()) {
      if (value.get<bool>()) settings.push_back({name, {}});
    } else if (value.is_array()) {
      settings.push_back({name, value.get<std::vector<std::string>>()});
    } else {
      settings.push_back({name, {value.is_string() ? value.get<std::string>() : value.dump()}});
    }
  }
  return settings;
}

ordered_json errors_json(const study::Errors& errors) {
  ordered_json json = ordered_json::object();
  for (const auto& [target, value] : errors) {
    if (const auto* number = std::get_if<study::NumberErrors>(&value)) {
      json[target] = {{"rmse", number->rmse},
                      {"mae", number->mae},
                      {"r2", number->r2 ? ordered_json(*number->r2) : ordered_json()}};
    } else {
      const auto& classes = std::get<study::ClassErrors>(value);
      json[target] = {{"accuracy", classes.accuracy},
                      {"cross_entropy", classes.cross_entropy},
                      {"classes", classes.classes},
                      {"confusion", classes.confusion}};
    }
  }
  return json;
}

study::Errors parse_errors(const ordered_json& json) {
  study::Errors errors;
  for (const auto& [target, value] : json.items()) {
    if (value.contains("rmse")) {
      study::NumberErrors number{value.at("rmse"), value.at("mae"), std::nullopt};
      if (!value.at("r2").is_null()) number.r2 = value.at("r2").get<double>();
      errors.push_back({target, number});
    } else {
      errors.push_back({target, study::ClassErrors{value.at("accuracy"), value.at("cross_entropy"),
                                                   value.at("classes"), value.at("confusion")}});
    }
  }
  return errors;
}

ordered_json result_json(const train::TrainResult& result, const std::string& in_words) {
  return {{"outcome", train::to_string(result.outcome)},
          {"in_words", in_words},
          {"steps", result.steps},
          {"lr", number_or_null(result.learning_rate)},
          {"train_loss", number_or_null(result.train_loss)},
          {"val_loss", number_or_null(result.val_loss)},
          {"best_step", result.best_step < 0 ? ordered_json() : ordered_json(result.best_step)},
          {"best_val_loss", number_or_null(result.best_val_loss)},
          {"linearizations", result.linearizations},
          {"rejected", result.rejected},
          {"seconds", result.seconds}};
}

train::TrainResult parse_result(const ordered_json& json) {
  train::TrainResult result;
  result.outcome = train::parse_outcome(json.at("outcome").get<std::string>());
  result.steps = json.at("steps");
  result.learning_rate = number_of(json, "lr");
  result.train_loss = number_of(json, "train_loss");
  result.val_loss = number_of(json, "val_loss");
  const double best = number_of(json, "best_step");
  result.best_step = std::isnan(best) ? -1 : static_cast<int64_t>(best);
  result.best_val_loss = number_of(json, "best_val_loss");
  result.linearizations = json.value("linearizations", int64_t{0});
  result.rejected = json.value("rejected", int64_t{0});
  result.seconds = json.value("seconds", 0.0);
  return result;
}

ordered_json tuning_json(const study::Tuning& tuning) {
  return {{"lr", tuning.learning_rate},
          {"p", tuning.p ? ordered_json(*tuning.p) : ordered_json()},
          {"steps", tuning.steps},
          {"val_loss", tuning.validation_loss}};
}

study::Tuning parse_tuning(const ordered_json& json) {
  study::Tuning tuning;
  tuning.learning_rate = json.at("lr");
  if (!json.at("p").is_null()) tuning.p = json.at("p").get<double>();
  tuning.steps = json.at("steps");
  tuning.validation_loss = number_of(json, "val_loss");
  return tuning;
}

RunRecord parse_fields(const ordered_json& json) {
  RunRecord record;
  record.version = json.value("version", "");
  record.revision = json.value("revision", "");
  record.settings = parse_settings(json.at("settings"));
  if (json.contains("defaults")) record.defaults = parse_settings(json.at("defaults"));
  record.seed = json.value("seed", uint64_t{0});
  if (const auto data = json.find("data"); data != json.end()) {
    record.data = {data->value("file", ""),          data->value("checksum", ""),
                   data->value("rows", int64_t{0}),  data->value("features", int64_t{0}),
                   data->value("train", int64_t{0}), data->value("validation", int64_t{0})};
  }
  if (const auto network = json.find("network"); network != json.end()) {
    record.network = {network->value("shape", ""), network->value("parameters", int64_t{0})};
  }
  if (const auto machine = json.find("machine"); machine != json.end()) {
    record.machine = {machine->value("device", ""), machine->value("threads", 0),
                      machine->value("libtorch", "")};
  }
  const auto there = [&](const char* name) { return json.contains(name) && !json[name].is_null(); };
  if (there("tuned")) record.tuned = parse_tuning(json.at("tuned"));
  if (there("analysis")) record.analysis = json.at("analysis").dump(2);
  record.analysis_text = json.value("analysis_text", "");
  if (there("result")) {
    record.result = parse_result(json.at("result"));
    record.in_words = json.at("result").value("in_words", "");
  }
  if (there("errors")) {
    const ordered_json& errors = json.at("errors");
    record.errors.emplace().train = parse_errors(errors.at("train"));
    if (!errors.at("validation").is_null()) {
      record.errors->validation = parse_errors(errors.at("validation"));
    }
  }
  if (there("seconds")) {
    const ordered_json& seconds = json.at("seconds");
    record.seconds = {seconds.value("load", 0.0), seconds.value("analysis", 0.0),
                      seconds.value("training", 0.0), seconds.value("total", 0.0)};
  }
  return record;
}

}  // namespace

RunErrors measure_errors(const study::Problem& problem) {
  const auto measure = [&](const std::vector<int64_t>& rows) -> study::Errors {
    if (rows.empty()) return {};
    const auto [predicted, wanted] = study::predict_rows(problem, rows);
    return study::measure_errors(problem.preprocess, predicted, wanted);
  };
  return {measure(problem.split.train), measure(problem.split.validation)};
}

std::string to_json(const RunRecord& record) {
  ordered_json json{{"format", kFormat},
                    {"version", record.version},
                    {"revision", record.revision},
                    {"settings", settings_json(record.settings)},
                    {"defaults", settings_json(record.defaults)},
                    {"seed", record.seed}};
  json["data"] = {{"file", record.data.file},   {"checksum", record.data.checksum},
                  {"rows", record.data.rows},   {"features", record.data.features},
                  {"train", record.data.train}, {"validation", record.data.validation}};
  json["network"] = {{"shape", record.network.shape}, {"parameters", record.network.parameters}};
  json["machine"] = {{"device", record.machine.device},
                     {"threads", record.machine.threads},
                     {"libtorch", record.machine.libtorch}};
  if (record.tuned) json["tuned"] = tuning_json(*record.tuned);
  if (!record.analysis.empty()) json["analysis"] = ordered_json::parse(record.analysis);
  if (!record.analysis_text.empty()) json["analysis_text"] = record.analysis_text;
  json["result"] = nullptr;
  if (!record.result) return json.dump(2);
  json["result"] = result_json(*record.result, record.in_words);
  json["errors"] = nullptr;
  if (record.errors) {
    const bool validated = !record.errors->validation.empty();
    json["errors"] = {
        {"train", errors_json(record.errors->train)},
        {"validation", validated ? errors_json(record.errors->validation) : ordered_json()}};
  }
  if (record.seconds) {
    json["seconds"] = {{"load", record.seconds->load},
                       {"analysis", record.seconds->analysis},
                       {"training", record.seconds->training},
                       {"total", record.seconds->total}};
  }
  return json.dump(2);
}

RunRecord parse_record(const std::string& text, const std::string& file) {
  const ordered_json json = parse_json(text, file);
  require_format(json, kFormat, file);
  try {
    return parse_fields(json);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(c10::str(file, ": cannot be read: ", error.what()));
  }
}

std::string to_json(const study::Errors& errors) { return errors_json(errors).dump(); }

Options options_of(const RunRecord& record) {
  Options options;
  apply(record.settings, options);
  return options;
}

}  // namespace cdt::run
