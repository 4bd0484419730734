// cdt data: makes a data set, describes a CSV file.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/json.h>
#include <cdt/data/csv.h>
#include <cdt/data/describe.h>
#include <cdt/data/houses.h>
#include <fmt/format.h>

#include "cli/study_options.h"

namespace cdt::cli {
namespace {

struct MakeOptions {
  OutputOptions output;
  std::string out;
  int64_t rows = 600;
  uint64_t seed = 1;
};

struct DescribeOptions {
  OutputOptions output;
  std::string file;
  data::CsvOptions csv;
  std::vector<std::string> targets;
};

int make(const MakeOptions& options) {
  const std::string text = data::make_houses(options.rows, options.seed);
  write_file_atomically(options.out, {text});
  options.output.text(fmt::format("{}: {} row{}, target price\n", options.out, options.rows,
                                  options.rows == 1 ? "" : "s"));
  options.output.write_json(dump_readably({{"file", options.out},
                                           {"rows", options.rows},
                                           {"seed", options.seed},
                                           {"targets", nlohmann::ordered_json::array({"price"})}}));
  return 0;
}

int describe(const DescribeOptions& options) {
  const data::Table table = data::read_csv(options.file, options.csv);
  if (!options.output.quiet) {
    for (const std::string& text : data::warnings_of(table)) warn(text);
  }
  const auto description = data::describe(table, options.targets);
  options.output.text(data::to_text(description));
  options.output.write_json(data::to_json(description));
  return 0;
}

std::function<int()> setup_make(CLI::App& app) {
  auto options = std::make_shared<MakeOptions>();
  app.add_option("FILE", options->out, "where to write the data set")
      ->required()
      ->type_name(kOutputFile);
  app.add_option("--rows", options->rows, "houses")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000'000}))
      ->capture_default_str();
  app.add_option("--seed", options->seed, "the same seed gives the same bytes")
      ->capture_default_str();
  options->output.add_to(app);
  app.footer(
      "Houses and their prices: numbers, text, missing values, noise. docs/formats.md has the "
      "formula.\n\n"
      "Example:\n  cdt data make houses.csv --rows 600 --seed 1");
  return [options] { return make(*options); };
}

std::function<int()> setup_describe(CLI::App& app) {
  auto options = std::make_shared<DescribeOptions>();
  add_csv_options(app, options->file, options->csv);
  add_columns(app, "--target", options->targets,
              "columns to learn, with commas between: finds equal rows that differ in them");
  options->output.add_to(app);
  app.footer("Example:\n  cdt data describe houses.csv --target price");
  return [options] { return describe(*options); };
}

}  // namespace

std::function<int()> setup_data(CLI::App& app) {
  auto chosen = std::make_shared<std::function<int()>>();
  const auto add = [&](const char* name, const char* summary, auto setup) {
    CLI::App* sub = app.add_subcommand(name, summary);
    sub->callback([chosen, action = setup(*sub)] { *chosen = action; });
  };
  add("make", "writes a generated data set of mixed types", setup_make);
  add("describe", "columns, types, missing values, and what is odd about a file", setup_describe);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  cdt data make houses.csv --rows 600 --seed 1\n"
      "  cdt data describe houses.csv --target price");
  return [chosen] { return (*chosen)(); };
}

}  // namespace cdt::cli
