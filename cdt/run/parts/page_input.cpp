#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/data/csv/csv_rows.h>
#include <cdt/run/folder.h>
#include <cdt/run/parts/page_input.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace cdt::run {
namespace {

namespace fs = std::filesystem;

/// A cell as a number; NaN if it is none.
double to_number(const std::string& cell) {
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  return end == cell.c_str() || *end != '\0' ? std::nan("") : value;
}

std::vector<double> to_numbers(const std::vector<std::string>& cells) {
  std::vector<double> values;
  values.reserve(cells.size());
  for (const std::string& cell : cells) values.push_back(to_number(cell));
  return values;
}

/// A CSV file that this program wrote: columns of text cells.
struct CsvFile {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> cells;  ///< [columns][rows]

  size_t rows() const { return cells.empty() ? 0 : cells[0].size(); }
  /// The cells of a column; nullptr if there is none of this name.
  const std::vector<std::string>* find(const std::string& name) const {
    const auto found = std::find(columns.begin(), columns.end(), name);
    return found == columns.end() ? nullptr : &cells[static_cast<size_t>(found - columns.begin())];
  }
  /// Its numbers; NaN for an empty cell or a column that is not there.
  std::vector<double> numbers(const std::string& name) const {
    const auto* column = find(name);
    return column == nullptr ? std::vector<double>(rows(), std::nan("")) : to_numbers(*column);
  }
};

/// @throws InvalidArgument, naming `source` and the line, if quotes are wrong or a row has too few
/// or too many cells.
CsvFile parse_cells(const std::string& text, const std::string& source) {
  using Status = data::CsvRows::Status;
  CsvFile file;
  data::CsvRows rows(',');
  std::string scratch;
  int64_t line = 1;
  for (size_t place = 0; place < text.size(); ++line) {
    const Status status = rows.next(text, /*last=*/true, place);
    if (status == Status::kBlank) continue;
    CDT_REQUIRE(status == Status::kRow, source, ", line ", line,
                ": a quote is not closed, or stands alone");
    const auto& cells = rows.cells();
    if (file.columns.empty()) {
      for (const data::CsvCell& cell : cells) file.columns.emplace_back(cell.text(scratch));
      file.cells.resize(cells.size());
      continue;
    }
    CDT_REQUIRE(cells.size() == file.columns.size(), source, ", line ", line, ": expected ",
                file.columns.size(), " cells, but came ", cells.size());
    for (size_t i = 0; i < cells.size(); ++i) file.cells[i].emplace_back(cells[i].text(scratch));
    for (const data::CsvCell& cell : cells) line += cell.lines();
  }
  return file;
}

report::RunHistory history_of(const CsvFile& file) {
  report::RunHistory history{
      file.numbers("step"),      file.numbers("lr"),           file.numbers("train_loss"),
      file.numbers("val_loss"),  file.numbers("augment_norm"), file.numbers("linearization_error"),
      file.numbers("refreshed"), file.numbers("rejected"),     file.numbers("seconds"),
      file.numbers("decay"),     file.numbers("freedom")};
  const bool path = std::any_of(history.decay.begin(), history.decay.end(),
                                [](double decay) { return std::isfinite(decay); });
  if (!path) history.decay = history.freedom = {};
  return history;
}

report::RunSpectrum spectrum_of(const CsvFile& file) {
  return {file.numbers("mode"), file.numbers("step"), file.numbers("gain"),
          file.numbers("factor_gd"), file.numbers("factor_cdt")};
}

/// Whether the target is a class, be it a number or a text: the run then counts its confusions.
bool is_class(const RunRecord& run, const std::string& target) {
  if (!run.errors) return false;
  return std::any_of(
      run.errors->train.begin(), run.errors->train.end(), [&](const study::TargetErrors& each) {
        return each.target == target && std::holds_alternative<study::ClassErrors>(each.value);
      });
}

bool is_numeric(const std::vector<double>& values) {
  return std::none_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

/// Columns "P(kind=flat)" from the one at `first` on, behind the targets: a class a column. Its
/// name may be anything, and have a number behind it where a target has the name.
void add_probabilities(const CsvFile& file, size_t first, report::TargetPredictions& target) {
  const std::string prefix = "P(" + target.name + "=";
  for (size_t i = first; i < file.columns.size(); ++i) {
    const std::string& name = file.columns[i];
    const size_t end = name.rfind(')');
    if (!name.starts_with(prefix) || end == std::string::npos) continue;
    target.classes.push_back(name.substr(prefix.size(), end - prefix.size()));
    target.probabilities.push_back(to_numbers(file.cells[i]));
  }
}

/// row, split and perhaps a name; then each target in a column before its prediction's; then
/// probabilities, or bounds of all targets. By their places: a target may have any name, and a
/// column beside it then has a number behind its own.
report::RunPredictions predictions_of(const CsvFile& file, const RunRecord& run) {
  constexpr size_t kSplit = 1;
  report::RunPredictions predictions;
  predictions.use.assign(file.rows(), report::RowUse::kTraining);
  if (file.columns.size() > kSplit) {
    const auto& split = file.cells[kSplit];
    for (size_t i = 0; i < split.size(); ++i) {
      if (split[i] == "validation") predictions.use[i] = report::RowUse::kValidation;
      if (split[i] == "test") predictions.use[i] = report::RowUse::kTest;
    }
  }
  const auto is_pair = [&](size_t i) {
    return i + 1 < file.columns.size() &&
           file.columns[i + 1].starts_with(file.columns[i] + " predicted");
  };
  size_t first = kSplit + 1;
  if (!is_pair(first)) ++first;
  size_t behind = first;
  while (is_pair(behind)) behind += 2;
  const bool bounds = behind > first && file.columns.size() - behind == behind - first &&
                      file.columns[behind].starts_with(file.columns[first] + " low");
  for (size_t i = first; i < behind; i += 2) {
    report::TargetPredictions target;
    target.name = file.columns[i];
    std::vector<double> truth = to_numbers(file.cells[i]);
    std::vector<double> predicted = to_numbers(file.cells[i + 1]);
    if (is_class(run, target.name) || !is_numeric(truth)) {
      target.true_class = file.cells[i];
      target.predicted_class = file.cells[i + 1];
      add_probabilities(file, behind, target);
    } else if (is_numeric(predicted)) {
      target.truth = std::move(truth);
      target.predicted = std::move(predicted);
      if (bounds) {
        target.low = to_numbers(file.cells[i + behind - first]);
        target.high = to_numbers(file.cells[i + 1 + behind - first]);
      }
    }
    predictions.targets.push_back(std::move(target));
  }
  return predictions;
}

std::vector<report::TargetErrors> errors_of(const study::Errors& errors) {
  std::vector<report::TargetErrors> shown;
  for (const auto& [target, value] : errors) {
    report::TargetErrors& each = shown.emplace_back();
    each.target = target;
    if (const auto* number = std::get_if<study::NumberErrors>(&value)) {
      each.rmse = number->rmse;
      each.mae = number->mae;
      each.r2 = number->r2.value_or(report::kNotKnown);
    } else {
      const auto& classes = std::get<study::ClassErrors>(value);
      each.accuracy = classes.accuracy;
      each.cross_entropy = classes.cross_entropy;
      each.balanced_accuracy = classes.balanced_accuracy;
      each.majority = classes.majority;
    }
  }
  return shown;
}

report::RunOutcome outcome_of(const train::TrainResult& result, const std::string& in_words) {
  report::RunOutcome outcome;
  outcome.outcome = train::to_string(result.outcome);
  outcome.in_words = in_words;
  outcome.steps = result.steps;
  outcome.lr = result.learning_rate;
  outcome.train_loss = result.train_loss;
  outcome.val_loss = result.val_loss;
  outcome.best_val_loss = result.best_val_loss;
  if (result.best_step >= 0) outcome.best_step = result.best_step;
  outcome.linearizations = result.linearizations;
  outcome.rejected = result.rejected;
  outcome.seconds = result.seconds;
  return outcome;
}

std::vector<report::NameValue> values_of(const Settings& settings) {
  std::vector<report::NameValue> shown;
  for (const auto& [name, values] : settings) {
    std::string text = values.empty() ? "yes" : "";
    for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
    shown.push_back({name, text});
  }
  return shown;
}

report::PredictorSummary predictor_of(const RunPrediction& prediction) {
  report::PredictorSummary found;
  found.members = prediction.members;
  found.points = prediction.points;
  found.decay = prediction.decay;
  found.temperature = prediction.temperature;
  for (const study::PickedPoint& each : prediction.picked) {
    found.picked.push_back({nn::to_string(each.activation), each.point, each.loss});
  }
  for (const study::Importance& each : prediction.importance) {
    found.importance.push_back({each.column, each.increase});
  }
  for (const study::Expectation& e : prediction.expected) {
    report::TargetExpectation& shown = found.expected.emplace_back();
    shown.target = e.target;
    shown.rows = e.rows;
    shown.verdict = study::verdict_of(e);
    if (e.later) shown.later = study::to_text(*e.later, !std::isnan(e.majority_wrong));
    if (std::isnan(e.majority_wrong)) {
      shown.rmse = e.rmse.value;
      shown.rmse_error = e.rmse.error;
      shown.r2 = e.r2;
      shown.linear_rmse = e.linear_rmse;
      shown.mean_rmse = e.mean_rmse;
    } else {
      shown.wrong = e.wrong.value;
      shown.wrong_error = e.wrong.error;
      shown.log_loss = e.log_loss.value;
      shown.log_loss_error = e.log_loss.error;
      shown.majority_wrong = e.majority_wrong;
    }
  }
  return found;
}

/// What the forecast chose stands apart from the defaults that it has replaced.
void take_tuned(const study::Tuning& tuned, report::RunRecord& page) {
  const auto choose = [&](const char* name, double value) {
    const auto named = [&](const report::NameValue& each) { return each.name == name; };
    if (std::any_of(page.given.begin(), page.given.end(), named)) return;  // was decided before
    std::erase_if(page.defaults, named);
    page.tuned.push_back({name, report::show(value)});
  };
  choose("lr", tuned.learning_rate);
  if (tuned.p) choose("p", *tuned.p);
  choose("steps", static_cast<double>(tuned.steps));
}

/// The rows of the table by what they were for.
void add_rows(const RunRecord& run, report::RunRecord& page) {
  const auto add = [&](const char* name, int64_t rows) {
    page.data.push_back({name, std::to_string(rows)});
  };
  if (!page.predicts) {
    add("train", run.data.train);
    add("validation", run.data.validation);
    return;
  }
  add("rows to learn from", run.data.train + run.data.validation);
  if (page.predictor && !page.predictor->expected.empty()) {
    add("of them held out in turn", page.predictor->expected[0].rows);
  }
}

/// What run.json says.
report::RunRecord page_of(const RunRecord& run) {
  report::RunRecord page;
  const auto text = [](int64_t count) { return std::to_string(count); };
  page.given = values_of(run.settings);
  page.defaults = values_of(run.defaults);
  for (const auto& settings : {run.defaults, run.settings}) {
    for (const auto& [name, values] : settings) {
      if (name == "method" && values.size() == 1) page.method = values[0];
      if (name == "goal" && values.size() == 1) page.predicts = values[0] == "predict";
    }
  }
  page.shape = run.network.shape;
  page.parameters = run.network.parameters;
  page.data_file = run.data.file;
  page.train_rows = run.data.train + (page.predicts ? run.data.validation : 0);
  page.version = run.version;
  page.revision = run.revision;
  page.seed = std::to_string(run.seed);
  page.data = {{"file", run.data.file},
               {"checksum", run.data.checksum},
               {"rows", text(run.data.rows)},
               {"features", text(run.data.features)}};
  if (run.prediction) page.predictor = predictor_of(*run.prediction);
  add_rows(run, page);
  if (run.tuned) take_tuned(*run.tuned, page);
  page.network = {{"shape", run.network.shape}, {"parameters", text(run.network.parameters)}};
  page.machine = {{"device", run.machine.device},
                  {"threads", text(run.machine.threads)},
                  {"libtorch", run.machine.libtorch}};
  const auto megabytes = [](int64_t bytes) { return fmt::format("{} MB", bytes >> 20); };
  if (run.machine.peak_bytes > 0) {
    page.machine.push_back({"peak memory", megabytes(run.machine.peak_bytes)});
  }
  if (run.machine.device_peak_bytes > 0) {
    page.machine.push_back({"peak memory of the GPU", megabytes(run.machine.device_peak_bytes)});
  }
  if (run.data.skipped > 0) page.data.push_back({"skipped", text(run.data.skipped)});
  if (run.seconds) {
    page.seconds = {{"load", report::show(run.seconds->load)},
                    {"analysis", report::show(run.seconds->analysis)},
                    {"training", report::show(run.seconds->training)},
                    {"total", report::show(run.seconds->total)}};
  }
  if (run.result) page.outcome = outcome_of(*run.result, run.in_words);
  if (run.errors) {
    page.train_errors = errors_of(run.errors->train);
    page.validation_errors = errors_of(run.errors->validation);
    page.test_errors = errors_of(run.errors->test);
  }
  page.preflight = run.analysis_text;
  return page;
}

}  // namespace

report::RunRecord make_record(const RunRecord& run, const RunTables& tables,
                              const std::string& source) {
  const auto cells = [&](const std::string& text, const char* name) {
    return parse_cells(text, (fs::path(source) / name).string());
  };
  report::RunRecord record = page_of(run);
  record.history = history_of(cells(tables.history, "history.csv"));
  record.predictions = predictions_of(cells(tables.predictions, "predictions.csv"), run);
  record.spectrum = spectrum_of(cells(tables.spectrum, "spectrum.csv"));
  const auto& use = record.predictions.use;
  if (const auto tests = std::count(use.begin(), use.end(), report::RowUse::kTest); tests > 0) {
    record.data.push_back({"test", std::to_string(tests)});
  }
  return record;
}

report::RunRecord read_record(const fs::path& folder) {
  CDT_REQUIRE(folder_exists(folder), folder.string(), ": expected the folder of a run",
              path_exists(folder) ? ", but it is a file" : ", but it does not exist");
  CDT_REQUIRE(path_exists(folder / "run.json"), folder.string(),
              ": expected the folder of a run or a sweep, but it has neither run.json nor "
              "results.json");
  const RunFolder files(folder);
  const RunRecord run = files.read_record();
  const auto text = [&](const char* name) {
    const fs::path path = folder / name;
    if (!path_exists(path)) return std::string();
    files.require_intact(run, path);
    return read_regular_file(path);
  };
  report::RunRecord record = make_record(
      run, {text("history.csv"), text("predictions.csv"), text("spectrum.csv")}, folder.string());
  const fs::path whole = fs::absolute(folder).lexically_normal();
  record.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return record;
}

std::vector<report::RunRecord> read_records(const std::vector<fs::path>& folders) {
  std::vector<report::RunRecord> records;
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    records.push_back(read_record(folder));
    if (!names.insert(records.back().name).second) records.back().name = folder.string();
  }
  return records;
}

}  // namespace cdt::run
