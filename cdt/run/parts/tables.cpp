#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/data/csv/csv_rows.h>
#include <cdt/run/folder.h>
#include <cdt/run/parts/tables.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace cdt::run {
namespace {

namespace fs = std::filesystem;

/// A cell as a number; NaN if it is not one.
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
  /// The cells of a column; nullptr if there is no such column.
  const std::vector<std::string>* find(const std::string& name) const {
    const auto found = std::find(columns.begin(), columns.end(), name);
    return found == columns.end() ? nullptr : &cells[static_cast<size_t>(found - columns.begin())];
  }
  /// The numbers of a column; NaN for an empty cell or a missing column.
  std::vector<double> numbers(const std::string& name) const {
    const auto* column = find(name);
    return column == nullptr ? std::vector<double>(rows(), std::nan("")) : to_numbers(*column);
  }
};

/// @throws InvalidArgument, naming `source` and the line, if quotes are invalid or a row has too
///   few or too many cells.
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
                file.columns.size(), " cells, got ", cells.size());
    for (size_t i = 0; i < cells.size(); ++i) file.cells[i].emplace_back(cells[i].text(scratch));
    for (const data::CsvCell& cell : cells) line += cell.lines();
  }
  return file;
}

std::vector<train::StepRecord> history_of(const std::string& text, const std::string& source) {
  if (text.empty()) return {};
  try {
    return train::parse_history(text);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(c10::str(source, ": ", error.what()));
  }
}

study::Spectrum spectrum_of(const CsvFile& file) {
  return {file.numbers("mode"), file.numbers("step"), file.numbers("gain"),
          file.numbers("factor_gd"), file.numbers("factor_cdt")};
}

/// Whether the target is a class, numeric or text: the run then has a confusion matrix.
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

/// Reads columns "P(kind=flat)" from index `first` on, after the targets, one per class. A class
/// may have any name, and the column a number after it if a target has that name.
void add_probabilities(const CsvFile& file, size_t first, study::TargetPredictions& target) {
  const std::string prefix = "P(" + target.name + "=";
  for (size_t i = first; i < file.columns.size(); ++i) {
    const std::string& name = file.columns[i];
    const size_t end = name.rfind(')');
    if (!name.starts_with(prefix) || end == std::string::npos) continue;
    target.classes.push_back(name.substr(prefix.size(), end - prefix.size()));
    target.probabilities.push_back(to_numbers(file.cells[i]));
  }
}

/// Columns: row, split and perhaps a name; then each target followed by its prediction; then
/// probabilities, or bounds of all targets. Identified by position, since a target may have any
/// name, and another column then has a number after its own.
study::PredictionTable predictions_of(const CsvFile& file, const RunRecord& run) {
  constexpr size_t kSplit = 1;
  study::PredictionTable predictions;
  predictions.use.assign(file.rows(), study::RowUse::kTraining);
  if (file.columns.size() > kSplit) {
    const auto& split = file.cells[kSplit];
    for (size_t i = 0; i < split.size(); ++i) {
      if (split[i] == "validation") predictions.use[i] = study::RowUse::kValidation;
      if (split[i] == "test") predictions.use[i] = study::RowUse::kTest;
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
    study::TargetPredictions target;
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

}  // namespace

void read_tables(RunRecord& record, const RunTables& tables, const std::string& source) {
  const auto path = [&](const char* name) { return (fs::path(source) / name).string(); };
  record.history = history_of(tables.history, path("history.csv"));
  record.predictions =
      predictions_of(parse_cells(tables.predictions, path("predictions.csv")), record);
  record.spectrum = spectrum_of(parse_cells(tables.spectrum, path("spectrum.csv")));
}

RunRecord read_record(const fs::path& folder) {
  CDT_REQUIRE(folder_exists(folder), folder.string(), ": expected the folder of a run",
              path_exists(folder) ? ", got a file" : ", but it does not exist");
  CDT_REQUIRE(path_exists(folder / "run.json"), folder.string(),
              ": expected the folder of a run or a sweep, but it has neither run.json nor "
              "results.json");
  const RunFolder files(folder);
  RunRecord record = files.read_record();
  const auto text = [&](const char* name) {
    const fs::path path = folder / name;
    if (!path_exists(path)) return std::string();
    files.require_intact(record, path);
    return read_regular_file(path);
  };
  read_tables(record, {text("history.csv"), text("predictions.csv"), text("spectrum.csv")},
              folder.string());
  const fs::path whole = fs::absolute(folder).lexically_normal();
  record.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  return record;
}

std::vector<RunRecord> read_records(const std::vector<fs::path>& folders) {
  std::vector<RunRecord> records;
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    records.push_back(read_record(folder));
    if (!names.insert(records.back().name).second) records.back().name = folder.string();
  }
  return records;
}

}  // namespace cdt::run
