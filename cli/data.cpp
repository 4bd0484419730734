// cdt data: makes data sets, describes a CSV file or arrays.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/own_file.h>
#include <cdt/core/text/format.h>
#include <cdt/data/houses.h>
#include <cdt/data/numpy/arrays.h>
#include <cdt/data/rows/describe.h>
#include <cdt/image/formats/generated.h>
#include <cdt/study/parts/pictures.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

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
  run::Options run;
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
  require_file(options.run.data.file, options.run.data.labels);
  study::DataOptions data = options.run.data;
  show_reading(data.csv, options.output.quiet);
  const data::Table table = study::read_table(data);
  if (!options.output.quiet) {
    for (const std::string& text : data::warnings_of(table)) warn(text);
  }
  std::vector<std::string> targets = options.run.data.targets;
  if (targets.empty() && data::format_of(options.run.data.file).arrays) {
    targets = data::label_columns(table);
  }
  const auto description = data::describe(table, targets);
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

struct MakePicturesOptions {
  OutputOptions output;
  std::string out;
  int64_t rows = 256;
  int64_t size = 96;
  uint64_t seed = 1;
};

/// Writes to a temporary folder and renames it, so that the folder is complete or absent.
int make_pictures(const MakePicturesOptions& options) {
  namespace fs = std::filesystem;
  fs::path folder = fs::path(options.out).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  CDT_REQUIRE(!path_exists(folder), options.out, ": expected a new folder, but it is there");
  const image::GeneratedPictures made =
      image::make_pictures(options.rows, options.seed, options.size);
  const fs::path staged =
      folder.parent_path() / fmt::format(".{}.{}", folder.filename().string(), ::getpid());
  // Creates the folder itself, so that nothing is written through an existing link of this name.
  if (::mkdir(staged.c_str(), 0777) != 0) throw_file_error("create", staged, errno);
  for (const std::string& name : made.classes) make_own_folder(staged / name);
  const auto show = progress("pictures", "written", options.output.quiet);
  const int digits = static_cast<int>(std::to_string(options.rows).size());
  for (size_t i = 0; i < made.pictures.size(); ++i) {
    const std::string& name = made.classes[static_cast<size_t>(made.labels[i])];
    write_file_atomically(staged / name / fmt::format("{:0{}}.png", i + 1, digits),
                          {image::encode_png(made.pictures[i])});
    show(static_cast<int64_t>(i) + 1, options.rows, "");
  }
  std::error_code failed;
  fs::rename(staged, folder, failed);
  if (failed) throw_file_error("create", folder, failed.value());
  sync_folder(folder.parent_path());
  options.output.text(fmt::format("{}: {} of {} × {} pixels, classes {}\n", options.out,
                                  count_of(options.rows, "picture"), options.size, options.size,
                                  fmt::join(made.classes, " and ")));
  options.output.write_json(dump_readably({{"folder", options.out},
                                           {"rows", options.rows},
                                           {"size", options.size},
                                           {"seed", options.seed},
                                           {"classes", made.classes}}));
  return 0;
}

std::function<int()> setup_make_pictures(CLI::App& app) {
  auto options = std::make_shared<MakePicturesOptions>();
  app.add_option("DIR", options->out, "a new folder, for a folder of PNG files a class")
      ->required();
  app.add_option("--rows", options->rows, "pictures")
      ->check(CLI::Range(int64_t{2}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--size", options->size, "both sides, in pixels")
      ->check(CLI::Range(int64_t{8}, int64_t{4096}))
      ->capture_default_str();
  app.add_option("--seed", options->seed, "the same seed gives the same pictures")
      ->capture_default_str();
  options->output.add_to(app);
  app.footer(
      "Ellipses and rectangles of any colour, place and size under noise.\n\n"
      "Example:\n  cdt data make-pictures shapes --rows 256 --size 32\n"
      "  cdt train shapes --size 32");
  return [options] { return make_pictures(*options); };
}

std::function<int()> setup_describe(CLI::App& app) {
  auto options = std::make_shared<DescribeOptions>();
  add_csv_options(app, options->run);
  add_array_options(app, options->run.data.file, options->run.data.labels);
  add_setting(app, options->run, "target")
      ->description("columns to learn, with commas between: finds equal rows that differ in them");
  options->output.add_to(app);
  app.footer(
      "Examples:\n  cdt data describe houses.csv --target price\n"
      "  cdt data describe --inputs x.npy --labels y.npy");
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
  add("make-pictures", "writes a generated set of pictures in two classes", setup_make_pictures);
  add("describe", "columns, types, missing values, and what is odd about a file", setup_describe);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  cdt data make houses.csv --rows 600 --seed 1\n"
      "  cdt data make-pictures shapes --rows 256 --size 32\n"
      "  cdt data describe houses.csv --target price");
  return [chosen] { return (*chosen)(); };
}

}  // namespace cdt::cli
