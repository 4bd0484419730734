#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/seal.h>
#include <cdt/core/text/format.h>
#include <cdt/run/record.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

Settings parse_settings(const JsonValue& json) {
  Settings settings;
  for (const auto& [name, value] : json.members()) {
    const ordered_json& raw = value.raw();
    if (raw.is_boolean()) {
      if (value.flag()) settings.push_back({name, {}});
    } else if (raw.is_array()) {
      settings.push_back({name, value.texts()});
    } else {
      if (!raw.is_string() && !raw.is_number()) value.refuse("a setting, or a list of texts");
      settings.push_back({name, {raw.is_string() ? value.text() : raw.dump()}});
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
      json[target] = {
          {"accuracy", classes.accuracy},  {"cross_entropy", number_or_null(classes.cross_entropy)},
          {"majority", classes.majority},  {"balanced_accuracy", classes.balanced_accuracy},
          {"classes", classes.classes},    {"recall", ordered_json::array()},
          {"confusion", classes.confusion}};
      for (const double recall : classes.recall)
        json[target]["recall"].push_back(number_or_null(recall));
    }
  }
  return json;
}

study::ClassErrors parse_class_errors(const JsonValue& json) {
  study::ClassErrors errors;
  errors.accuracy = json["accuracy"].number();
  errors.cross_entropy = json["cross_entropy"].number_or_nan();
  errors.classes = json["classes"].texts();
  const size_t classes = errors.classes.size();
  for (const JsonValue& row : json["confusion"].list()) {
    errors.confusion.push_back(row.counts(classes));
  }
  if (errors.confusion.size() != classes) {
    json["confusion"].refuse(c10::str("a row for each of the ", classes, " classes"));
  }
  study::add_baselines(errors);  // that earlier versions did not write
  return errors;
}

study::Errors parse_errors(const JsonValue& json) {
  study::Errors errors;
  for (const auto& [target, value] : json.members()) {
    if (value["classes"].exists()) {
      errors.push_back({target, parse_class_errors(value)});
      continue;
    }
    study::NumberErrors number{value["rmse"].number_or_nan(), value["mae"].number_or_nan(),
                               std::nullopt};
    if (value["r2"].exists()) number.r2 = value["r2"].number();
    errors.push_back({target, number});
  }
  return errors;
}

ordered_json result_json(const train::TrainResult& result, const std::string& in_words) {
  ordered_json json = {
      {"outcome", train::to_string(result.outcome)},
      {"in_words", in_words},
      {"steps", result.steps},
      {"lr", number_or_null(result.learning_rate)},
      {"train_loss", number_or_null(result.train_loss)},
      {"val_loss", number_or_null(result.val_loss)},
      {"objective", number_or_null(result.objective)},
      {"best_step", result.best_step < 0 ? ordered_json() : ordered_json(result.best_step)},
      {"best_val_loss", number_or_null(result.best_val_loss)},
      {"linearizations", result.linearizations},
      {"rejected", result.rejected},
      {"seconds", result.seconds}};
  if (!result.form.empty()) json["form"] = {{"name", result.form}, {"why", result.form_why}};
  if (!result.controller.empty()) json["controller"] = control::to_json(result.controller);
  return json;
}

train::TrainResult parse_result(const JsonValue& json) {
  train::TrainResult result;
  result.outcome = json["outcome"].name(train::parse_outcome);
  result.steps = json["steps"].count();
  result.learning_rate = json["lr"].number_or_nan();
  result.train_loss = json["train_loss"].number_or_nan();
  result.val_loss = json["val_loss"].number_or_nan();
  result.objective = json["objective"].number_or_nan();
  result.best_step = json["best_step"].count_or(-1);
  result.best_val_loss = json["best_val_loss"].number_or_nan();
  result.linearizations = json["linearizations"].count_or(0);
  result.rejected = json["rejected"].count_or(0);
  result.seconds = json["seconds"].number_or(0);
  if (const JsonValue form = json["form"]; form.exists()) {
    result.form = form["name"].text();
    result.form_why = form["why"].text_or("");
  }
  if (const JsonValue controller = json["controller"]; controller.exists()) {
    result.controller = control::parse_certificate(controller);
  }
  return result;
}

ordered_json tuning_json(const study::Tuning& tuning) {
  return {{"lr", tuning.learning_rate},
          {"p", tuning.p ? ordered_json(*tuning.p) : ordered_json()},
          {"steps", tuning.steps},
          {"val_loss", tuning.validation_loss}};
}

study::Tuning parse_tuning(const JsonValue& json) {
  study::Tuning tuning;
  tuning.learning_rate = json["lr"].number();
  if (json["p"].exists()) tuning.p = json["p"].number();
  tuning.steps = json["steps"].count();
  tuning.validation_loss = json["val_loss"].number_or_nan();
  return tuning;
}

ordered_json estimate_json(const study::Estimate& estimate) {
  return {{"value", number_or_null(estimate.value)}, {"error", number_or_null(estimate.error)}};
}

/// Infinite where all rows prefer it by the same.
ordered_json lead_json(double lead) {
  constexpr double kMostLead = 1e9;
  return number_or_null(std::clamp(lead, -kMostLead, kMostLead));
}

study::Estimate parse_estimate(const JsonValue& json) {
  return {json["value"].number_or_nan(), json["error"].number_or_nan()};
}

ordered_json prediction_json(const RunPrediction& prediction) {
  ordered_json json{{"members", prediction.members},
                    {"points", prediction.points},
                    {"decay", number_or_null(prediction.decay)},
                    {"picked", ordered_json::array()},
                    {"temperature", prediction.temperature},
                    {"targets", ordered_json::array()},
                    {"expected", ordered_json::array()}};
  for (const study::PickedPoint& each : prediction.picked) {
    json["picked"].push_back({{"activation", nn::to_string(each.activation)},
                              {"point", each.point},
                              {"loss", number_or_null(each.loss)}});
  }
  for (const study::TargetCalibration& target : prediction.targets) {
    json["targets"].push_back(
        {{"low", target.low}, {"high", target.high}, {"factor", target.factor}});
    if (target.line > 0) json["targets"].back()["line"] = target.line;
  }
  for (const study::Expectation& e : prediction.expected) {
    ordered_json each{{"target", e.target}, {"rows", e.rows}};
    if (e.different > 0 && e.different < e.rows) each["different_rows"] = e.different;
    if (std::isnan(e.majority_wrong)) {
      each["rmse"] = estimate_json(e.rmse);
      each["r2"] = number_or_null(e.r2);
      each["rmse_of_linear"] = number_or_null(e.linear_rmse);
      each["rmse_of_mean"] = number_or_null(e.mean_rmse);
    } else {
      each["wrong"] = estimate_json(e.wrong);
      each["log_loss"] = estimate_json(e.log_loss);
      each["wrong_of_majority"] = e.majority_wrong;
    }
    each["lead"] = {{"over_simple", lead_json(e.simple_lead)},
                    {"over_linear", lead_json(e.linear_lead)}};
    if (e.decisive > 0) each["decisive_rows"] = e.decisive;
    if (e.later) {
      each["later"] = {{"by", e.later->by},
                       {"rows", e.later->rows},
                       {"error", estimate_json(e.later->error)},
                       {"r2", number_or_null(e.later->r2)}};
    }
    json["expected"].push_back(std::move(each));
  }
  for (const study::Importance& each : prediction.importance) {
    json["importance"].push_back(
        {{"column", each.column}, {"increase", number_or_null(each.increase)}});
  }
  return json;
}

RunPrediction parse_prediction(const JsonValue& json) {
  RunPrediction prediction;
  prediction.members = json["members"].whole(1, study::kMostNetworks + 1);
  prediction.points = json["points"].count();
  prediction.decay = json["decay"].number_or_nan();
  prediction.temperature = json["temperature"].number_or(1);
  if (!(prediction.temperature > 0)) json["temperature"].refuse("a number above zero");
  if (json["picked"].exists()) {
    for (const JsonValue& each : json["picked"].list()) {
      prediction.picked.push_back({nn::parse_activation(each["activation"].text()),
                                   each["point"].count(), each["loss"].number_or_nan()});
    }
  }
  if (json["targets"].exists()) {
    for (const JsonValue& target : json["targets"].list()) {
      prediction.targets.push_back({target["low"].number(), target["high"].number(),
                                    target["factor"].number(), target["line"].number_or(0)});
      const double line = prediction.targets.back().line;
      if (!(line >= 0 && line <= 1)) target["line"].refuse("a share from 0 to 1");
    }
  }
  if (json["importance"].exists()) {
    for (const JsonValue& each : json["importance"].list()) {
      prediction.importance.push_back({each["column"].text(), each["increase"].number_or_nan()});
    }
  }
  if (!json["expected"].exists()) return prediction;
  for (const JsonValue& each : json["expected"].list()) {
    study::Expectation e;
    e.target = each["target"].text();
    e.rows = each["rows"].count();
    e.different = each["different_rows"].count_or(e.rows);
    if (each["rmse"].exists()) {
      e.rmse = parse_estimate(each["rmse"]);
      e.r2 = each["r2"].number_or_nan();
      e.linear_rmse = each["rmse_of_linear"].number_or_nan();
      e.mean_rmse = each["rmse_of_mean"].number_or_nan();
    } else {
      e.wrong = parse_estimate(each["wrong"]);
      e.log_loss = parse_estimate(each["log_loss"]);
      e.majority_wrong = each["wrong_of_majority"].number();
    }
    if (each["lead"].exists()) {
      e.simple_lead = each["lead"]["over_simple"].number_or_nan();
      e.linear_lead = each["lead"]["over_linear"].number_or_nan();
    }
    e.decisive = each["decisive_rows"].count_or(0);
    if (const JsonValue later = each["later"]; later.exists()) {
      e.later = study::LaterRows{later["by"].text(), later["rows"].count(),
                                 parse_estimate(later["error"]), later["r2"].number_or_nan()};
    }
    prediction.expected.push_back(std::move(e));
  }
  return prediction;
}

}  // namespace

std::vector<SplitPredictions> predict_splits(const study::Problem& problem) {
  std::vector<SplitPredictions> found;
  const auto add = [&](const char* split, const std::vector<int64_t>& rows) {
    if (rows.empty()) return;
    found.push_back({split, rows, study::predict_rows(problem, problem.model, rows), {}});
  };
  add("train", problem.split.train);
  add("validation", problem.split.validation);
  add("test", problem.split.test);
  return found;
}

std::vector<SplitPredictions> predict_splits(const study::Problem& problem,
                                             const study::Predictor& predictor,
                                             const study::Learned& learned,
                                             const std::optional<study::Intervals>& intervals) {
  const data::Split& split = problem.split;
  std::vector<int64_t> rows = split.train;
  rows.insert(rows.end(), split.validation.begin(), split.validation.end());
  std::vector<SplitPredictions> found;
  found.push_back({"train", rows, study::predict_rows(problem, predictor, rows), {}});
  const torch::Tensor held = torch::isfinite(learned.held_out).all(1).nonzero().squeeze(1);
  if (held.numel() > 0) {
    SplitPredictions out{"validation", {}, {}, {}};
    for (int64_t i = 0; i < held.numel(); ++i) {
      out.rows.push_back(rows[static_cast<size_t>(held[i].item<int64_t>())]);
    }
    out.values = {
        study::in_units(predictor, problem.preprocess, learned.held_out.index_select(0, held)),
        problem.preprocess.targets_in_units(problem.table, out.rows)};
    if (intervals) {
      out.bounds =
          study::held_out_bounds(problem, learned, predictor, *intervals, held, kBoundsCoverage);
    }
    found.push_back(std::move(out));
  }
  if (!split.test.empty()) {
    found.push_back({"test", split.test, study::predict_rows(problem, predictor, split.test), {}});
  }
  return found;
}

RunErrors measure_errors(const study::Problem& problem,
                         const std::vector<SplitPredictions>& predictions) {
  RunErrors errors;
  for (const SplitPredictions& each : predictions) {
    study::Errors& place = each.split == "train"        ? errors.train
                           : each.split == "validation" ? errors.validation
                                                        : errors.test;
    place = study::measure_errors(problem.preprocess, each.values.predicted, each.values.wanted);
  }
  return errors;
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
  if (record.data.columns > 0) json["data"]["columns"] = record.data.columns;
  if (record.data.skipped > 0) json["data"]["skipped"] = record.data.skipped;
  if (record.data.repeated > 0) json["data"]["repeated"] = record.data.repeated;
  json["network"] = {{"shape", record.network.shape}, {"parameters", record.network.parameters}};
  json["machine"] = {{"device", record.machine.device},
                     {"threads", record.machine.threads},
                     {"libtorch", record.machine.libtorch}};
  if (record.machine.workers > 1) json["machine"]["workers"] = record.machine.workers;
  if (record.machine.peak_bytes > 0) json["machine"]["peak_bytes"] = record.machine.peak_bytes;
  if (record.machine.device_peak_bytes > 0) {
    json["machine"]["device_peak_bytes"] = record.machine.device_peak_bytes;
  }
  if (record.tuned) json["tuned"] = tuning_json(*record.tuned);
  if (!record.analysis.empty())
    json["analysis"] = parse_json(record.analysis, "the analysis of a run").raw();
  if (!record.analysis_text.empty()) json["analysis_text"] = record.analysis_text;
  json["files"] = record.files;
  json["result"] = nullptr;
  if (!record.result) return sealed(dump_exactly(json, "run.json", 2));
  json["result"] = result_json(*record.result, record.in_words);
  if (record.prediction) json["prediction"] = prediction_json(*record.prediction);
  json["errors"] = nullptr;
  if (record.errors) {
    const bool validated = !record.errors->validation.empty();
    json["errors"] = {
        {"train", errors_json(record.errors->train)},
        {"validation", validated ? errors_json(record.errors->validation) : ordered_json()}};
    if (!record.errors->test.empty()) json["errors"]["test"] = errors_json(record.errors->test);
  }
  if (record.seconds) {
    json["seconds"] = {{"load", record.seconds->load},
                       {"analysis", record.seconds->analysis},
                       {"training", record.seconds->training},
                       {"total", record.seconds->total}};
  }
  return sealed(dump_exactly(json, "run.json", 2));
}

RunRecord parse_record(const std::string& text, const std::string& file) {
  const JsonValue json = parse_json(text, file);
  json.require_format(kFormat);
  RunRecord record;
  record.version = json["version"].text_or("");
  record.revision = json["revision"].text_or("");
  record.settings = parse_settings(json["settings"]);
  if (json["defaults"].exists()) record.defaults = parse_settings(json["defaults"]);
  if (json["seed"].exists()) record.seed = json["seed"].seed();
  const JsonValue data = json["data"];
  record.data = {
      data["file"].text_or(""),     data["checksum"].text_or(""), data["rows"].count_or(0),
      data["features"].count_or(0), data["train"].count_or(0),    data["validation"].count_or(0),
      data["columns"].count_or(0),  data["skipped"].count_or(0),  data["repeated"].count_or(0)};
  const JsonValue network = json["network"];
  record.network = {network["shape"].text_or(""), network["parameters"].count_or(0)};
  const JsonValue machine = json["machine"];
  record.machine.device = machine["device"].text_or("");
  if (machine["threads"].exists()) {
    record.machine.threads =
        static_cast<int>(machine["threads"].whole(0, std::numeric_limits<int>::max()));
  }
  record.machine.libtorch = machine["libtorch"].text_or("");
  record.machine.workers = machine["workers"].count_or(1);
  record.machine.peak_bytes = machine["peak_bytes"].count_or(0);
  record.machine.device_peak_bytes = machine["device_peak_bytes"].count_or(0);
  if (json["tuned"].exists()) record.tuned = parse_tuning(json["tuned"]);
  if (json["analysis"].exists()) record.analysis = json["analysis"].raw().dump(2);
  record.analysis_text = json["analysis_text"].text_or("");
  if (const JsonValue result = json["result"]; result.exists()) {
    record.result = parse_result(result);
    record.in_words = result["in_words"].text_or("");
  }
  if (const JsonValue prediction = json["prediction"]; prediction.exists()) {
    record.prediction = parse_prediction(prediction);
  }
  if (const JsonValue errors = json["errors"]; errors.exists()) {
    record.errors.emplace().train = parse_errors(errors["train"]);
    if (errors["validation"].exists()) {
      record.errors->validation = parse_errors(errors["validation"]);
    }
    if (errors["test"].exists()) record.errors->test = parse_errors(errors["test"]);
  }
  if (const JsonValue seconds = json["seconds"]; seconds.exists()) {
    record.seconds = {seconds["load"].number_or(0), seconds["analysis"].number_or(0),
                      seconds["training"].number_or(0), seconds["total"].number_or(0)};
  }
  if (const JsonValue files = json["files"]; files.exists()) {
    for (const auto& [name, sum] : files.members()) record.files[name] = sum.text();
  }
  return record;
}

std::string to_json(const study::Errors& errors) { return dump_readably(errors_json(errors), -1); }

Options options_of(const RunRecord& record) {
  Options options;
  options.data.goal = study::Goal::kFit;  // of a folder that names none
  apply(record.settings, options);
  return options;
}

}  // namespace cdt::run
