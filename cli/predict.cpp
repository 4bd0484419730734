// cdt predict: a run folder and a CSV file, arrays or pictures → predictions in units of the
// training file.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/text/format.h>
#include <cdt/core/text/text.h>
#include <cdt/data/read.h>
#include <cdt/data/rows/rows.h>
#include <cdt/run/folder.h>
#include <cdt/study/parts/pictures.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "cli/study_options.h"

namespace cdt::cli {
namespace {

struct PredictCommand {
  std::string run;
  std::string file;
  std::string labels;
  std::string out;
  std::string id;
  double interval = 0;
  bool csv_safe = false;
  bool skip_bad = false;
  bool refuse_unknown = false;
  MachineOptions machine;
  OutputOptions output;
};

std::string error_line(const std::string& name,
                       const std::variant<study::NumberErrors, study::ClassErrors>& value) {
  if (const auto* of = std::get_if<study::ClassErrors>(&value)) {
    return fmt::format("  accuracy of {} in the file: {:.2f} %\n", name, 100 * of->accuracy);
  }
  const auto& of = std::get<study::NumberErrors>(value);
  return fmt::format("  errors of {} in the file: RMS {:.6g}, mean absolute {:.6g}{}\n", name,
                     of.rmse, of.mae, of.r2 ? fmt::format(", R² = {:.4f}", *of.r2) : "");
}

/// Results for all parts of the file.
struct Found {
  int64_t rows = 0;
  std::vector<torch::Tensor> values, targets;
  int64_t skipped = 0;  ///< pictures that could not be read
  bool known = true;    ///< every row has its targets
  std::string unmeasured;
  std::vector<data::UnknownTexts> unknown;

  void add(const run::Predictions& part, const std::vector<data::UnknownTexts>& texts) {
    rows += part.values.size(0);
    values.push_back(part.values);
    known = known && part.targets.defined();
    if (known) targets.push_back(part.targets);
    if (unmeasured.empty()) unmeasured = part.unmeasured;
    for (const data::UnknownTexts& each : texts) {
      const auto same = std::find_if(unknown.begin(), unknown.end(), [&](const auto& before) {
        return before.column == each.column && before.missing == each.missing;
      });
      if (same == unknown.end()) {
        unknown.push_back(each);
      } else {
        same->rows += each.rows;
      }
    }
  }
};

/// Values of the rows that were unknown in training; throws if the options request it.
std::vector<data::UnknownTexts> find_unknown(const PredictCommand& options,
                                             const run::TrainedModel& trained,
                                             const data::Table& table) {
  auto unknown = trained.preprocess.unknown_values(table);
  if (options.refuse_unknown) data::refuse_unknown(unknown, options.file);
  return unknown;
}

/// Predicts pictures in parts, each with its name beside the prediction.
Found predict_pictures(const PredictCommand& options, const run::TrainedModel& trained,
                       const std::function<void(const std::string&)>& write) {
  CDT_REQUIRE(options.id.empty(), "--id names a column of a table; pictures have their names");
  constexpr int64_t kPart = 1024;
  const data::Table all =
      study::read_new_pictures(options.file, trained.preprocess.pictures->shape);
  const auto show = progress("pictures", "predicted", options.output.quiet);
  Found found;
  for (int64_t first = 0; first < all.rows(); first += kPart) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(kPart, all.rows() - first)));
    std::iota(rows.begin(), rows.end(), first);
    if (options.skip_bad) {
      for (const auto& bad : all.pictures->unreadable(rows)) {
        warn(bad.reason);
        std::erase(rows, bad.row);
        ++found.skipped;
      }
      if (rows.empty()) continue;
    }
    const data::Table part = study::select_rows(all, rows);
    const run::Predictions predicted = run::predict(trained, part);
    run::PredictionLines lines;
    lines.first_row = found.rows + 1;
    lines.id = &part.at(study::kPictureColumn);
    lines.for_spreadsheets = options.csv_safe;
    write(run::to_csv(trained, predicted, lines));
    found.add(predicted, {});
    show(std::min(first + kPart, all.rows()), all.rows(), "");
  }
  CDT_REQUIRE(found.rows > 0, options.file, ": none of ", found.skipped, " files is a picture");
  return found;
}

/// Predicts the rows of a table as they are read; `write` receives their lines.
Found predict_table(const PredictCommand& options, const run::TrainedModel& trained,
                    const std::function<void(const std::string&)>& write) {
  CDT_REQUIRE(!options.skip_bad, "--skip-bad is for pictures; the run was trained on a table");
  const bool arrays = data::format_of(options.file).arrays;
  CDT_REQUIRE(options.id.empty() || !arrays,
              "--id names a column of a CSV file; arrays have rows alone");
  data::Source source{options.file, options.labels, trained.preprocess.csv_options()};
  data::CsvOptions& csv = source.csv;
  show_reading(csv, options.output.quiet);
  if (!options.id.empty() && !data::contains(csv.keep, options.id)) {
    csv.keep.push_back(options.id);
    csv.types[options.id] = data::ColumnType::kText;  // copied unchanged
  }
  const int64_t columns = arrays ? run::RunFolder(options.run).read_record().data.columns : 0;
  const auto show = progress("rows", "predicted", options.output.quiet);
  Found found;
  data::read_in_parts(source, [&](const data::Table& table, int64_t all) {
    CDT_REQUIRE(columns == 0 || table.inputs == columns, options.file, ": expected inputs [rows, ",
                columns, "], as the run was trained on, got ", table.inputs, " columns");
    const auto unknown = find_unknown(options, trained, table);
    const run::Predictions part = run::predict(trained, table, options.interval);
    run::PredictionLines lines;
    lines.first_row = found.rows + 1;
    lines.id = options.id.empty() ? nullptr : &table.at(options.id);
    lines.for_spreadsheets = options.csv_safe;
    write(run::to_csv(trained, part, lines));
    found.add(part, unknown);
    if (all > 0) show(found.rows, all, "");
  });
  return found;
}

int run_predict(const PredictCommand& options) {
  require_file(options.file, options.labels);
  const torch::Device device = options.machine.apply();
  const run::TrainedModel trained =
      run::load_trained(run::RunFolder(options.run), device, options.interval > 0);
  const bool to_stdout = options.out == "-";
  CDT_REQUIRE(!to_stdout || options.output.json != "-",
              "--out - and --json - cannot share standard output");
  const bool terminal = to_stdout && isatty(STDOUT_FILENO) == 1;
  std::string csv;
  const auto write = [&](const std::string& lines) {
    if (to_stdout) {
      print(terminal ? printable(lines) : lines);
    } else {
      csv += lines;
    }
  };
  const bool pictures = trained.preprocess.pictures.has_value();
  const Found found =
      pictures ? predict_pictures(options, trained, write) : predict_table(options, trained, write);
  if (!to_stdout) write_file_atomically(options.out, {csv});

  nlohmann::ordered_json json{{"run", options.run},
                              {"file", options.file},
                              {"rows", found.rows},
                              {"predictions", options.out}};
  if (found.skipped > 0) json["skipped"] = found.skipped;
  std::string text = fmt::format("{}: predictions for {}\n", options.out,
                                 count_of(found.rows, pictures ? "picture" : "row"));
  for (const data::UnknownTexts& unknown : found.unknown) {
    warn(fmt::format("{}:{}: {}", options.file, unknown.line, data::to_text(unknown)));
    json["unknown"].push_back({{"column", unknown.column},
                               {"rows", unknown.rows},
                               {"line", unknown.line},
                               {"first", unknown.first},
                               {"taken_for", unknown.taken_for}});
    if (unknown.missing) json["unknown"].back()["missing"] = true;
  }
  if (!found.unmeasured.empty()) {
    warn("errors were not measured: " + found.unmeasured);
    json["errors"] = nlohmann::ordered_json::object();
  } else if (found.known) {
    const study::Errors errors = study::measure_errors(trained.preprocess, torch::cat(found.values),
                                                       torch::cat(found.targets));
    json["errors"] = parse_json(run::to_json(errors), "errors").raw();
    for (const auto& [name, value] : errors) text += error_line(printable_name(name), value);
  }
  if (!to_stdout) options.output.text(text);
  options.output.write_json(dump_readably(json));
  return 0;
}

}  // namespace

std::function<int()> setup_predict(CLI::App& app) {
  auto options = std::make_shared<PredictCommand>();
  app.add_option("RUN", options->run, "the folder that cdt train wrote")->required();
  app.add_option("FILE", options->file,
                 data::in_words(data::formats()) +
                     ", with the columns of the training file; targets may be absent. For a run on "
                     "pictures: a folder of them, with folders of classes or without, "
                     "one picture, or an IDX file")
      ->required();
  add_array_options(app, options->file, options->labels);
  app.add_option("--out", options->out,
                 "where to write the predictions, CSV; - for standard output")
      ->required()
      ->type_name(kOutputFile);
  app.add_option("--id", options->id, "a column of FILE to repeat beside the predictions")
      ->type_name("COLUMN");
  app.add_option(
         "--interval", options->interval,
         "also bounds that hold this share of new rows, columns TARGET_low and TARGET_high: "
         "0.9")
      ->check(CLI::Range(0.01, 0.999))
      ->type_name("SHARE");
  app.add_option_function<std::string>(
         "--unknown",
         [options](const std::string& what) { options->refuse_unknown = what == "refuse"; },
         "what training did not know, and values that are missing where none was: warn, with "
         "their number by column, or refuse the file")
      ->check(among({"warn", "refuse"}))
      ->type_name("WHAT")
      ->default_str("warn");
  app.add_flag("--skip-bad", options->skip_bad,
               "pictures: skip damaged files and other files instead of refusing them");
  add_csv_safe(app, options->csv_safe);
  options->machine.add_to(app);
  options->output.add_to(app);
  app.footer(
      "Examples:\n"
      "  cdt predict run1 new.csv --out prices.csv\n"
      "  cdt predict run1 new.csv --interval 0.9 --id parcel --out prices.csv\n"
      "  cdt predict run2 holiday --out animals.csv\n"
      "  collect | cdt predict run1 /dev/stdin --out -");
  return [options] { return run_predict(*options); };
}

}  // namespace cdt::cli
