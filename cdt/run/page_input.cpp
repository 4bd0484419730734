#include <cdt/core/file.h>
#include <cdt/run/json_fields.h>
#include <cdt/run/page_input.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace cdt::run {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

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

/// @throws InvalidArgument, naming `source` and the line, if a row has too few or too many cells.
CsvFile parse_csv(const std::string& text, const std::string& source) {
  CsvFile file;
  std::vector<std::string> row(1);
  bool quoted = false;
  size_t line = 1;
  const auto finish_row = [&] {
    if (file.columns.empty()) {
      file.columns = row;
      file.cells.resize(row.size());
    } else {
      CDT_REQUIRE(row.size() == file.columns.size(), source, ", line ", line, ": expected ",
                  file.columns.size(), " cells, but came ", row.size());
      for (size_t i = 0; i < row.size(); ++i) file.cells[i].push_back(std::move(row[i]));
    }
    row.assign(1, "");
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        row.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      row.emplace_back();
    } else if (c == '\n') {
      finish_row();
    } else if (c != '\r') {
      row.back() += c;
    }
    if (c == '\n') ++line;
  }
  CDT_REQUIRE(!quoted, source, ": a quote is not closed");
  if (row.size() > 1 || !row[0].empty()) finish_row();
  return file;
}

report::RunHistory history_of(const CsvFile& file) {
  return {
      file.numbers("step"),      file.numbers("lr"),           file.numbers("train_loss"),
      file.numbers("val_loss"),  file.numbers("augment_norm"), file.numbers("linearization_error"),
      file.numbers("refreshed"), file.numbers("rejected"),     file.numbers("seconds")};
}

report::RunSpectrum spectrum_of(const CsvFile& file) {
  return {file.numbers("mode"), file.numbers("step"), file.numbers("gain"),
          file.numbers("factor_gd"), file.numbers("factor_cdt")};
}

/// Whether the target is a class, be it a number or a text: the run then counts its confusions.
bool is_class(const ordered_json& run, const std::string& target) {
  const auto errors = field(field(field(run, "errors"), "train"), target.c_str());
  return !field(errors, "confusion").is_null() || !field(errors, "accuracy").is_null();
}

bool is_numeric(const std::vector<double>& values) {
  return std::none_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

/// A target stands in a column before its prediction's.
report::RunPredictions predictions_of(const CsvFile& file, const ordered_json& run) {
  report::RunPredictions predictions;
  predictions.validation.assign(file.rows(), false);
  if (const auto* split = file.find("split")) {
    for (size_t i = 0; i < split->size(); ++i) {
      predictions.validation[i] = (*split)[i] == "validation";
    }
  }
  for (size_t i = 0; i + 1 < file.columns.size(); ++i) {
    const std::string& name = file.columns[i];
    if (file.columns[i + 1] != name + " predicted") continue;
    report::TargetPredictions target;
    target.name = name;
    std::vector<double> truth = to_numbers(file.cells[i]);
    std::vector<double> predicted = to_numbers(file.cells[i + 1]);
    if (is_class(run, name) || !is_numeric(truth)) {
      target.true_class = file.cells[i];
      target.predicted_class = file.cells[i + 1];
    } else if (is_numeric(predicted)) {
      target.truth = std::move(truth);
      target.predicted = std::move(predicted);
    }
    predictions.targets.push_back(std::move(target));
  }
  return predictions;
}

std::vector<report::TargetErrors> errors_of(const ordered_json& targets) {
  std::vector<report::TargetErrors> errors;
  if (!targets.is_object()) return errors;
  for (const auto& [target, error] : targets.items()) {
    errors.push_back({target, number_of(error, "rmse"), number_of(error, "mae"),
                      number_of(error, "r2"), number_of(error, "accuracy"),
                      number_of(error, "cross_entropy")});
  }
  return errors;
}

std::optional<report::RunOutcome> outcome_of(const ordered_json& result) {
  if (result.is_null()) return std::nullopt;
  report::RunOutcome outcome;
  outcome.outcome = text_of(result, "outcome");
  outcome.in_words = text_of(result, "in_words");
  outcome.steps = count_in(result, "steps");
  outcome.lr = number_of(result, "lr");
  outcome.train_loss = number_of(result, "train_loss");
  outcome.val_loss = number_of(result, "val_loss");
  outcome.best_val_loss = number_of(result, "best_val_loss");
  outcome.best_step = count_in(result, "best_step");
  outcome.linearizations = count_in(result, "linearizations");
  outcome.rejected = count_in(result, "rejected");
  outcome.seconds = number_of(result, "seconds");
  return outcome;
}

/// What run.json says.
report::RunRecord record_of(const ordered_json& run) {
  report::RunRecord record;
  const ordered_json data = field(run, "data");
  const ordered_json network = field(run, "network");
  record.given = shown_fields(field(run, "settings"));
  record.defaults = shown_fields(field(run, "defaults"));
  record.method = text_of(field(run, "settings"), "method");
  if (record.method.empty()) record.method = text_of(field(run, "defaults"), "method");
  record.shape = text_of(network, "shape");
  record.parameters = count_in(network, "parameters");
  record.data_file = text_of(data, "file");
  record.train_rows = count_in(data, "train");
  record.version = text_of(run, "version");
  record.revision = text_of(run, "revision");
  record.seed = shown(field(run, "seed"));
  record.data = shown_fields(data);
  record.network = shown_fields(network);
  record.machine = shown_fields(field(run, "machine"));
  record.seconds = shown_fields(field(run, "seconds"));
  record.outcome = outcome_of(field(run, "result"));
  record.train_errors = errors_of(field(field(run, "errors"), "train"));
  record.validation_errors = errors_of(field(field(run, "errors"), "validation"));
  record.preflight = text_of(run, "analysis_text");
  return record;
}

}  // namespace

report::RunRecord read_record(const fs::path& folder) {
  CDT_REQUIRE(fs::is_directory(folder), folder.string(), ": expected the folder of a run",
              fs::exists(folder) ? ", but it is a file" : ", but it does not exist");
  CDT_REQUIRE(fs::exists(folder / "run.json"), folder.string(),
              ": expected the folder of a run or a sweep, but it has neither run.json nor "
              "results.json");
  const ordered_json run =
      parse_json(read_file(folder / "run.json"), (folder / "run.json").string());
  require_format(run, "cdt-run-1", (folder / "run.json").string());
  const auto csv = [&](const char* name) {
    const fs::path path = folder / name;
    return fs::exists(path) ? parse_csv(read_file(path), path.string()) : CsvFile{};
  };
  report::RunRecord record = record_of(run);
  const fs::path whole = fs::absolute(folder).lexically_normal();
  record.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  record.history = history_of(csv("history.csv"));
  record.predictions = predictions_of(csv("predictions.csv"), run);
  record.spectrum = spectrum_of(csv("spectrum.csv"));
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
