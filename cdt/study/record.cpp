#include <cdt/core/error.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/core/io/seal.h>
#include <cdt/study/record.h>

namespace cdt::study {
namespace {

void settings_fields(Fields& f, Settings& settings) {
  f.members(settings, &SettingValue::name, [&](SettingValue& each) { f.words(each.values); });
}

/// Without its history, which has its own file.
void result_fields(Fields& f, train::TrainResult& result, std::string& in_words) {
  f.spelled(
      "outcome", result.outcome, [](auto value) { return train::to_string(value); },
      train::parse_outcome);
  f("in_words", in_words);
  f.need("steps", result.steps);
  f("lr", result.learning_rate);
  f("train_loss", result.train_loss);
  f("val_loss", result.val_loss);
  f("objective", result.objective);
  std::optional<int64_t> best;
  if (result.best_step >= 0) best = result.best_step;
  f("best_step", best);
  result.best_step = best.value_or(-1);
  f("best_val_loss", result.best_val_loss);
  f("linearizations", result.linearizations);
  f("rejected", result.rejected);
  f("seconds", result.seconds);
  if (f.has("form", !result.form.empty())) {
    f.object("form", [&] {
      f.need("name", result.form);
      f("why", result.form_why);
    });
  }
  if (f.has("controller", !result.controller.empty())) f("controller", result.controller);
}

}  // namespace

std::vector<SplitPredictions> predict_splits(const Problem& problem, const loss::LossPtr& loss) {
  const Predictor predictor(problem.model, loss);
  std::vector<SplitPredictions> found;
  const auto add = [&](const char* split, const std::vector<int64_t>& rows) {
    if (rows.empty()) return;
    found.push_back({split, rows, predict_rows(problem, predictor, rows), {}});
  };
  add("train", problem.split.train);
  add("validation", problem.split.validation);
  add("test", problem.split.test);
  return found;
}

std::vector<SplitPredictions> predict_splits(const Problem& problem, const Predictor& predictor,
                                             const Learned& learned,
                                             const std::optional<Intervals>& intervals) {
  const data::Split& split = problem.split;
  std::vector<int64_t> rows = split.train;
  rows.insert(rows.end(), split.validation.begin(), split.validation.end());
  std::vector<SplitPredictions> found;
  found.push_back({"train", rows, predict_rows(problem, predictor, rows), {}});
  const torch::Tensor held = torch::isfinite(learned.held_out).all(1).nonzero().squeeze(1);
  if (held.numel() > 0) {
    SplitPredictions out{"validation", {}, {}, {}};
    for (int64_t i = 0; i < held.numel(); ++i) {
      out.rows.push_back(rows[static_cast<size_t>(held[i].item<int64_t>())]);
    }
    out.values = {in_units(predictor, problem.preprocess, learned.held_out.index_select(0, held)),
                  problem.preprocess.targets_in_units(problem.table, out.rows)};
    if (intervals) {
      out.bounds = held_out_bounds(problem, learned, predictor, *intervals, held, kBoundsCoverage);
    }
    found.push_back(std::move(out));
  }
  if (!split.test.empty()) {
    found.push_back({"test", split.test, predict_rows(problem, predictor, split.test), {}});
  }
  return found;
}

RunErrors measure_errors(const Problem& problem, const std::vector<SplitPredictions>& predictions) {
  RunErrors errors;
  for (const SplitPredictions& each : predictions) {
    Errors& place = each.split == "train"        ? errors.train
                    : each.split == "validation" ? errors.validation
                                                 : errors.test;
    place = measure_errors(problem.preprocess, each.values.predicted, each.values.wanted);
  }
  return errors;
}

void RunErrors::fields(Fields& f) {
  f.object("train", [&] { study::fields(f, train); });
  if (f.has("validation", !validation.empty())) {
    f.object("validation", [&] { study::fields(f, validation); });
  } else {
    f.none("validation");
  }
  if (f.has("test", !test.empty())) f.object("test", [&] { study::fields(f, test); });
}

void RunPrediction::fields(Fields& f) {
  f.whole("members", members, 1, kMostNetworks + 1);
  f.need("points", points);
  f("decay", decay);
  f("picked", picked);
  f("temperature", temperature);
  f.require(temperature > 0, "temperature", "a number above zero");
  f("targets", targets);
  f("expected", expected);
  f.some("importance", importance);
}

void Record::Data::fields(Fields& f) {
  f("file", file);
  f("checksum", checksum);
  f("rows", rows);
  f("features", features);
  f("train", train);
  f("validation", validation);
  f.some("columns", columns);
  f.some("skipped", skipped);
  f.some("repeated", repeated);
}

void Record::Machine::fields(Fields& f) {
  f("device", device);
  f("threads", threads);
  f("libtorch", libtorch);
  f.some("workers", workers, int64_t{1});
  f.some("peak_bytes", peak_bytes);
  f.some("device_peak_bytes", device_peak_bytes);
}

void Record::fields(Fields& f) {
  f.format("cdt-run-1");
  f("version", version);
  f("revision", revision);
  f.object("settings", [&] { settings_fields(f, settings); });
  if (f.has("defaults")) f.object("defaults", [&] { settings_fields(f, defaults); });
  f.some("choices", choices);
  f("seed", seed);
  f("data", data);
  f("network", network);
  f("machine", machine);
  f.some("tuned", tuned);
  if (f.has("analysis", !analysis.empty())) f.json("analysis", analysis);
  f.some("analysis_text", analysis_text);
  f("files", files);
  if (f.reads() && f.has("result")) result.emplace();
  if (result) {
    f.object("result", [&] { result_fields(f, *result, in_words); });
  } else {
    f.none("result");
    if (!f.reads()) return;
  }
  f.some("prediction", prediction);
  f("errors", errors);
  f.some("seconds", seconds);
}

std::string to_json(const Record& record) {
  return sealed(dump_exactly(to_json_value(record), "run.json", 2));
}

Record parse_record(const std::string& text, const std::string& file) {
  return from_json_value<Record>(parse_json(text, file));
}

std::string to_json(const Errors& errors) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  JsonWriter writer(json);
  Errors shown = errors;
  study::fields(writer, shown);
  return dump_readably(json, -1);
}

std::optional<std::string> Record::setting(const std::string& name) const {
  for (const Settings* part : {&settings, &defaults}) {
    for (const SettingValue& each : *part) {
      if (each.name == name && each.values.size() == 1) return each.values[0];
    }
  }
  return std::nullopt;
}

}  // namespace cdt::study
