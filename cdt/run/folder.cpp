#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/own_file.h>
#include <cdt/core/io/seal.h>
#include <cdt/core/safetensors.h>
#include <cdt/nn/saved_model.h>
#include <cdt/report/run_page.h>
#include <cdt/run/folder.h>
#include <cdt/run/parts/tables.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <set>

namespace cdt::run {
namespace {

using torch::Tensor;
namespace fs = std::filesystem;

std::string model_name(int64_t member) {
  return member == 1 ? "model.safetensors" : fmt::format("model-{}.safetensors", member);
}

/// Unique names of a file's columns, as CSV fields. Targets keep theirs; another name already in
/// use gets a number: `row_2`, `price_low_2`.
class ColumnNames {
 public:
  ColumnNames(const data::Preprocess& preprocess, bool for_spreadsheets)
      : for_spreadsheets_(for_spreadsheets) {
    for (const auto& target : preprocess.targets) targets_.push_back(add(target.name));
  }

  const std::string& target(size_t t) const { return targets_[t]; }
  std::string add(const std::string& name) {
    std::string field = data::csv_field(name, for_spreadsheets_);
    for (int number = 2; !taken_.insert(field).second; ++number) {
      field = data::csv_field(fmt::format("{}_{}", name, number), for_spreadsheets_);
    }
    return field;
  }

 private:
  bool for_spreadsheets_;
  std::vector<std::string> targets_;
  std::set<std::string> taken_;
};

/// ",P(kind=flat),P(kind=house)": a column of probabilities per class; ",price_low,price_high",
/// joined by `between`, per target if there are bounds.
std::string further_columns(const data::Preprocess& preprocess, ColumnNames& names, bool bounds,
                            char between) {
  std::string columns;
  if (preprocess.has_classes()) {
    for (const std::string& name : preprocess.classes()) {
      columns += "," + names.add(fmt::format("P({}={})", preprocess.targets[0].name, name));
    }
  }
  for (size_t t = 0; bounds && t < preprocess.targets.size(); ++t) {
    for (const char* end : {"low", "high"}) {
      columns += "," + names.add(fmt::format("{}{}{}", preprocess.targets[t].name, between, end));
    }
  }
  return columns;
}

std::string cell_of(const data::Column& column, int64_t row) {
  const auto i = static_cast<size_t>(row);
  if (column.is_missing(row)) return "";
  if (column.type == data::ColumnType::kNumeric) return fmt::format("{}", column.numbers[i]);
  return column.categories[static_cast<size_t>(column.codes[i])];
}

/// ",0.9,0.1" for row i of predictions; an infinite value is empty: too few rows for a bound.
std::string value_cells(const Tensor& predictions, int64_t i) {
  std::string cells;
  const auto values = predictions.accessor<double, 2>();
  for (int64_t c = 0; c < values.size(1); ++c) {
    cells += std::isfinite(values[i][c]) ? fmt::format(",{}", values[i][c]) : ",";
  }
  return cells;
}

}  // namespace

const std::vector<std::string>& RunFolder::file_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all{
        "run.json",        "history.csv",  "model.safetensors",      "preprocess.json",
        "predictions.csv", "spectrum.csv", "checkpoint.safetensors", "intervals.safetensors"};
    for (int64_t member = 2; member <= study::kMostNetworks + 1; ++member) {
      all.push_back(model_name(member));
    }
    return all;
  }();
  return names;
}

fs::path RunFolder::model(int64_t member) const { return path_ / model_name(member); }

bool RunFolder::holds_run() const { return path_exists(run()); }

void RunFolder::require_apart(const fs::path& input) const {
  for (const std::string& name : file_names()) {
    CDT_REQUIRE(!is_same_file(path_ / name, input), input.string(), ": is ", name,
                " of the folder ", path_.string(),
                ", which training writes; choose another folder, or copy the file");
  }
}

void RunFolder::require_run() const {
  CDT_REQUIRE(folder_exists(path_), path_.string(), ": expected the folder of a run");
  for (const auto& file : {run(), model(), preprocess()}) {
    CDT_REQUIRE(path_exists(file), path_.string(), ": expected a finished run, but it has no ",
                file.filename().string());
  }
}

fs::path make_free_folder() {
  for (int number = 1;; ++number) {
    fs::path path = fmt::format("run{}", number);
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) throw_file_error("create", path, errno);
  }
}

void RunFolder::write_record(const RunRecord& record) const {
  write_file_atomically(run(), {to_json(record), "\n"});
}

RunRecord RunFolder::read_record() const {
  finish_update(path_);
  CDT_REQUIRE(holds_run(), path_.string(),
              ": expected the folder of a run, but it has no run.json");
  return parse_record(read_sealed(run()), run().string());
}

void RunFolder::require_intact(const RunRecord& record, const fs::path& file) const {
  const auto known = record.files.find(file.filename().string());
  if (known == record.files.end()) return;
  const std::string found = checksum_of_file(file);
  CDT_REQUIRE(found == known->second, file.string(),
              ": is damaged, or of another run: expected the checksum ", known->second,
              " of run.json, got ", found);
}

void RunFolder::write_history(const std::vector<train::StepRecord>& rows) const {
  write_file_atomically(history(), {train::to_csv(rows)});
}

std::vector<train::StepRecord> RunFolder::read_history() const {
  return train::parse_history(read_regular_file(history()));
}

void RunFolder::write_preprocess(const data::Preprocess& fitted) const {
  write_file_atomically(preprocess(), {data::to_json(fitted), "\n"});
}

data::Preprocess RunFolder::read_preprocess() const {
  return data::parse_preprocess(read_regular_file(preprocess(), kLongestJson),
                                preprocess().string());
}

void RunFolder::write_predictions(const data::Preprocess& preprocess,
                                  const std::vector<SplitPredictions>& predictions,
                                  bool for_spreadsheets, const data::Column* id) const {
  const auto field = [&](const std::string& text) {
    return data::csv_field(text, for_spreadsheets);
  };
  ColumnNames names(preprocess, for_spreadsheets);
  std::string csv = names.add("row") + "," + names.add("split");
  if (id != nullptr) csv += "," + names.add(id->name);
  for (size_t t = 0; t < preprocess.targets.size(); ++t) {
    csv += "," + names.target(t) + "," + names.add(preprocess.targets[t].name + " predicted");
  }
  const bool classes = preprocess.has_classes();
  const bool bounds = std::any_of(predictions.begin(), predictions.end(),
                                  [](const auto& each) { return each.bounds.has_value(); });
  csv += further_columns(preprocess, names, bounds, ' ') + "\n";
  std::vector<const SplitPredictions*> last;  // last split that has the row
  for (const SplitPredictions& each : predictions) {
    for (const int64_t row : each.rows) {
      const auto at = static_cast<size_t>(row);
      if (at >= last.size()) last.resize(at + 1, nullptr);
      last[at] = &each;
    }
  }
  for (const SplitPredictions& each : predictions) {
    const auto predicted = each.values.predicted.accessor<double, 2>();
    const auto wanted = each.values.wanted.accessor<double, 2>();
    const Tensor low = each.bounds ? each.bounds->low : Tensor();
    const Tensor high = each.bounds ? each.bounds->high : Tensor();
    std::vector<std::string> truths, guesses;
    if (classes) {
      truths = study::class_names(preprocess, each.values.wanted);
      guesses = study::class_names(preprocess, each.values.predicted);
    }
    for (int64_t i = 0; i < predicted.size(0); ++i) {
      const int64_t row = each.rows[static_cast<size_t>(i)];
      if (last.at(static_cast<size_t>(row)) != &each) continue;
      csv += fmt::format("{},{}", row + 1, each.split);
      if (id != nullptr) csv += "," + field(cell_of(*id, row));
      if (classes) {
        const auto at = static_cast<size_t>(i);
        csv += fmt::format(",{},{}{}\n", field(truths[at]), field(guesses[at]),
                           value_cells(each.values.predicted, i));
        continue;
      }
      for (int64_t c = 0; c < predicted.size(1); ++c) {
        csv += fmt::format(",{},{}", wanted[i][c], predicted[i][c]);
      }
      for (int64_t c = 0; bounds && c < predicted.size(1); ++c) {
        for (const Tensor* bound : {&low, &high}) {
          const double value = bound->defined() ? (*bound)[i][c].item<double>() : NAN;
          csv += std::isfinite(value) ? fmt::format(",{}", value) : ",";
        }
      }
      csv += "\n";
    }
  }
  write_file_atomically(this->predictions(), {csv});
}

void RunFolder::write_intervals(const study::Intervals& found) const {
  save_safetensors(intervals(), study::to_safetensors(found));
}

study::Intervals RunFolder::read_intervals(int64_t features, int64_t targets) const {
  CDT_REQUIRE(path_exists(intervals()), path_.string(),
              ": has no intervals: it was trained with --no-intervals, for classes, or with "
              "--goal fit");
  return study::parse_intervals(load_safetensors(intervals()), features, targets,
                                intervals().string());
}

void RunFolder::write_spectrum(const analysis::Preflight& preflight) const {
  Tensor columns = preflight.controller.spectrum;
  if (!columns.defined()) {  // as if by the paper's controller
    const auto usual = analysis::usual_controller(preflight);
    const Tensor& s = usual.steps();
    columns = torch::stack(
        {usual.plant().modes().values, s, usual.law().augments(s), usual.closed_loop()});
  }
  std::string csv = "mode,eigenvalue,step,gain,factor_gd,factor_cdt\n";
  columns = columns.cpu();
  const auto value = columns.accessor<double, 2>();
  const int64_t n = columns.size(1);
  for (int64_t mode = 1; mode <= n; ++mode) {  // eigenvalues ascend; mode 1 is the fastest
    const int64_t i = n - mode;
    csv += fmt::format("{},{},{},{},{},{}\n", mode, value[0][i], value[1][i], value[2][i],
                       1 - value[1][i], value[3][i]);
  }
  write_file_atomically(spectrum(), {csv});
}

void RunFolder::write_report(mode_t mode) const {
  write_own_file(report(), {report::to_html(report::run_page(read_records({path_})))}, mode);
}

TrainedModel load_trained(const RunFolder& folder, torch::Device device, bool intervals) {
  finish_update(folder.path());
  folder.require_run();
  TrainedModel trained;
  const RunRecord record = folder.read_record();
  const int64_t members = record.prediction ? record.prediction->members : 1;
  if (const auto loss = record.setting("loss")) trained.predictor.loss = loss::parse(*loss);
  if (record.prediction) {
    trained.predictor.temperature = record.prediction->temperature;
    trained.predictor.targets = record.prediction->targets;
  }
  folder.require_intact(record, folder.preprocess());
  for (int64_t m = 1; m <= members; ++m) {
    CDT_REQUIRE(path_exists(folder.model(m)), folder.path().string(), ": expected ", members,
                " networks, but it has no ", folder.model(m).filename().string());
    folder.require_intact(record, folder.model(m));
  }
  if (intervals && path_exists(folder.intervals())) {
    folder.require_intact(record, folder.intervals());
  }
  trained.preprocess = folder.read_preprocess();
  const data::Preprocess& preprocess = trained.preprocess;
  for (int64_t m = 1; m <= members; ++m) {
    nn::Network model = nn::load_model(folder.model(m));
    model->to(device);
    trained.predictor.members.push_back(std::move(model));
  }
  study::require_fitting(trained, folder.path().string());
  if (intervals) {
    trained.intervals =
        folder.read_intervals(preprocess.feature_count(), preprocess.output_count());
  }
  return trained;
}

Predictions predict(const TrainedModel& trained, const data::Table& table, double coverage) {
  const data::Preprocess& preprocess = trained.preprocess;
  Predictions found;
  const data::TableSamples samples(table, preprocess, data::TableSamples::Labels::kNone);
  found.values = study::predict_targets(trained.predictor, preprocess, samples, table.source);
  if (coverage > 0 && trained.intervals) {
    found.bounds =
        study::bounds_of(*trained.intervals, trained.predictor, preprocess, samples.all().x,
                         coverage, preprocess.unfamiliar(table, samples.rows()));
  }
  if (preprocess.has_classes()) found.classes = study::class_names(preprocess, found.values);
  bool known = true;
  for (const auto& target : preprocess.targets) {
    const data::Column* column = table.find(target.name);
    known = known && column != nullptr;
    for (int64_t row = 0; known && row < table.rows(); ++row) known = !column->is_missing(row);
  }
  if (!known) return found;
  try {
    found.targets = preprocess.targets_in_units(table, samples.rows());
    found.errors = study::measure_errors(preprocess, found.values, found.targets);
  } catch (const InvalidArgument& error) {  // predictions do not require targets
    found.unmeasured = error.what();
  }
  return found;
}

std::string to_csv(const TrainedModel& trained, const Predictions& predictions,
                   const PredictionLines& lines) {
  const auto field = [&](const std::string& text) {
    return data::csv_field(text, lines.for_spreadsheets);
  };
  const bool classes = trained.preprocess.has_classes();
  const auto& bounds = predictions.bounds;
  std::string csv;
  if (lines.first_row == 1) {
    const auto& targets = trained.preprocess.targets;
    ColumnNames names(trained.preprocess, lines.for_spreadsheets);
    csv = names.add("row");
    if (lines.id != nullptr) {
      const bool given = std::any_of(targets.begin(), targets.end(),
                                     [&](const auto& t) { return t.name == lines.id->name; });
      csv += "," + names.add(lines.id->name + (given ? " given" : ""));
    }
    for (size_t t = 0; t < targets.size(); ++t) csv += "," + names.target(t);
    csv += further_columns(trained.preprocess, names, bounds.has_value(), '_') + "\n";
  }
  for (int64_t row = 0; row < predictions.values.size(0); ++row) {
    csv += std::to_string(lines.first_row + row);
    if (lines.id != nullptr) csv += "," + field(cell_of(*lines.id, row));
    if (classes) csv += "," + field(predictions.classes[static_cast<size_t>(row)]);
    csv += value_cells(predictions.values, row);
    for (int64_t t = 0; bounds && t < bounds->low.size(1); ++t) {
      csv += fmt::format(",{},{}", bounds->low[row][t].item<double>(),
                         bounds->high[row][t].item<double>());
    }
    csv += "\n";
  }
  return csv;
}

}  // namespace cdt::run
