#include "cli/study_options.h"

#include <cdt/core/error.h>
#include <cdt/data/read.h>
#include <cdt/loss/loss.h>
#include <cdt/run/settings.h>
#include <cdt/study/parts/pictures.h>
#include <cdt/study/problem.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace cdt::cli {
namespace {

/// An option that takes lists, each a line of CSV; `take` receives the items of all.
template <class Take>
CLI::Option* add_list(CLI::App& app, const std::string& flag, Take take, const std::string& text,
                      const std::string& type) {
  return app
      .add_option_function<std::vector<std::string>>(
          flag,
          [take, flag](const std::vector<std::string>& lists) {
            std::vector<std::string> items;
            for (const std::string& list : lists) {
              for (std::string& item : data::csv_list(list, flag)) items.push_back(std::move(item));
            }
            take(items);
          },
          text)
      ->allow_extra_args(false)
      ->type_name(type);
}

/// Checks the range of the values.
template <class T>
void check_range(CLI::Option& option, const study::Range& range) {
  if (std::isfinite(range.highest)) {
    option.check(CLI::Range(static_cast<T>(range.lowest), static_cast<T>(range.highest)));
  } else if (range.lowest == 0) {
    option.check(range.open ? positive() : non_negative());
  }
}

/// An option that takes values of one type: a single one, or a list separated by commas.
template <class T, class Set>
CLI::Option* add_numbers(CLI::App& app, const std::string& flag, const run::Setting& setting,
                         bool list, Set set) {
  CLI::Option* option = nullptr;
  if (list) {
    const auto take = [set](const std::vector<T>& numbers) {
      std::vector<std::string> values;
      for (const T& each : numbers) values.push_back(fmt::format("{}", each));
      set(values);
    };
    option = app.add_option_function<std::vector<T>>(flag, take, setting.help)
                 ->delimiter(',')
                 ->allow_extra_args(false);
  } else {
    const auto take = [set](const T& number) { set({fmt::format("{}", number)}); };
    option = app.add_option_function<T>(flag, take, setting.help);
  }
  check_range<T>(*option, setting.range);
  return option;
}

const std::vector<std::string> kCsv{"drop",      "numeric",   "text",    "missing",
                                    "no-header", "delimiter", "decimal", "dates"};
const std::vector<std::string> kTable{"target",
                                      "missing-target",
                                      "rows",
                                      "train-fraction",
                                      "train-rows",
                                      "test-fraction",
                                      "group",
                                      "time",
                                      "categories",
                                      "max-levels",
                                      "missing-numbers",
                                      "unknown",
                                      "quantiles",
                                      "scale",
                                      "clip",
                                      "target-scale",
                                      "target-transform",
                                      "fit",
                                      "keep"};
const std::vector<std::string> kPictures{"size", "grey", "skip-bad", "cache", "sample-weights"};
const std::vector<std::string> kNetwork{"activation", "parametrization", "sigma-w",
                                        "sigma-b",    "width-factor",    "dtype"};

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const loss::Entry& entry : loss::losses()) names.push_back(entry.name);
  return names;
}

void add_settings(CLI::App& app, run::Options& options, const std::vector<std::string>& names) {
  for (const std::string& name : names) add_setting(app, options, name);
}

}  // namespace

CLI::Option* add_setting(CLI::App& app, run::Options& options, const std::string& name) {
  using Kind = run::Setting::Kind;
  const run::Setting& setting = run::find_setting(name);
  const std::string flag = "--" + name;
  const auto set = [&setting, &options](const std::vector<std::string>& values) {
    options.given.insert(setting.name);
    try {
      setting.set(options, values);
    } catch (const InvalidArgument& error) {  // names the setting; replace it by the flag
      const std::string text = error.what();
      throw InvalidArgument(text.starts_with(setting.name + ":") ? "--" + text : text);
    }
  };
  CLI::Option* option = nullptr;
  switch (setting.kind) {
    case Kind::kSwitch:
      return app.add_flag_callback(
          flag, [set] { set({}); }, setting.help);
    case Kind::kWhole:
    case Kind::kWholes:
      option = add_numbers<int64_t>(app, flag, setting, setting.kind == Kind::kWholes, set);
      break;
    case Kind::kNatural:
      option = add_numbers<uint64_t>(app, flag, setting, false, set);
      break;
    case Kind::kReal:
    case Kind::kReals:
      option = add_numbers<double>(app, flag, setting, setting.kind == Kind::kReals, set);
      break;
    case Kind::kText:
      option = app.add_option_function<std::string>(
          flag, [set](const std::string& text) { set({text}); }, setting.help);
      break;
    case Kind::kTexts:
      option = add_list(app, flag, set, setting.help, setting.placeholder);
      break;
  }
  if (!setting.placeholder.empty()) option->type_name(setting.placeholder);
  if (!setting.choices.empty()) option->check(among(setting.choices));
  if (setting.refuses) {
    const auto check = [&setting](const std::string& text) {
      const std::string why = setting.refuses(text);
      return why.empty() ? why : why + value_hint(text.substr(0, text.find(':')), loss_names());
    };
    option->check(CLI::Validator(check, "LOSS"));
  }
  const auto usual = setting.get(options);
  if (setting.listed && usual) option->default_str(fmt::format("{}", fmt::join(*usual, ",")));
  return option;
}

void add_csv_options(CLI::App& app, run::Options& options, bool required) {
  app.add_option("FILE", options.data.file, data::in_words(data::formats()))->required(required);
  add_settings(app, options, kCsv);
  app.get_option("--delimiter")->default_str("");  // by default, the delimiter of the file
}

void add_array_options(CLI::App& app, std::string& file, std::string& labels) {
  CLI::Option* place = app.get_option("FILE")->required(false);
  app.add_option_function<std::string>(
         "--inputs",
         [&file](const std::string& path) {
           require_arrays(path);
           file = path;
         },
         "instead of FILE: inputs [rows, features] as .npy, or an array of an .npz archive "
         "(FILE.npz:NAME; x if it is not named). Columns are x1, x2, …")
      ->excludes(place)
      ->type_name(kInputFile);
  app.add_option(
         "--labels", labels,
         "labels of --inputs, [rows] or [rows, targets], as .npy or .npz. Columns are y, or y1, "
         "y2, …; default: y of the archive of --inputs")
      ->type_name(kInputFile);
}

void require_arrays(const std::string& inputs) {
  data::Formats arrays = data::formats();
  std::erase_if(arrays, [](const data::Format& each) { return !each.arrays; });
  CDT_REQUIRE(data::format_of(inputs).arrays, "--inputs ", inputs, ": expected ",
              data::in_words(arrays), ", got another file");
}

void require_file(const std::string& file, const std::string& labels) {
  CDT_REQUIRE(!file.empty(), "FILE is required, or arrays (--inputs)");
  CDT_REQUIRE(labels.empty() || data::format_of(file).arrays,
              "--labels goes with inputs in an array of NumPy (--inputs), got ", file);
}

void show_reading(data::CsvOptions& csv, bool quiet) {
  constexpr int64_t kMegabyte = 1'000'000;
  csv.progress = [show = progress("reading", "MB", quiet)](int64_t done, int64_t total) {
    if (total > kMegabyte) show(done / kMegabyte, total / kMegabyte, "");
  };
}

void require_target(const study::DataOptions& data) {
  CDT_REQUIRE(data.is_pictures || !data.targets.empty() || data::format_of(data.file).arrays,
              "--target is required: the columns of ", data.file, " to learn");
}

std::set<std::string> given_settings(const CLI::App& app) {
  std::set<std::string> names;
  for (const run::Setting& setting : run::all_settings()) {
    const auto given = [&](const std::string& flag) {
      return app.get_option_no_throw(flag) != nullptr && app.count(flag) > 0;
    };
    const bool file = setting.name == "file" && (given("FILE") || given("--inputs"));
    if (file || given("--" + setting.name)) names.insert(setting.name);
  }
  return names;
}

void add_table_options(CLI::App& app, run::Options& options, bool required) {
  add_csv_options(app, options, required);
  add_settings(app, options, kTable);
}

void add_data_options(CLI::App& app, run::Options& options, bool required) {
  add_table_options(app, options, required);
  app.get_option("FILE")->description(data::in_words(study::formats()));
  add_settings(app, options, kPictures);
}

void add_network_options(CLI::App& app, run::Options& options, bool hidden_layers) {
  if (hidden_layers) add_settings(app, options, {"arch", "hidden"});
  add_settings(app, options, kNetwork);
}

CLI::Option* add_memory(CLI::App& app, int64_t& bytes, const std::string& text) {
  return app
      .add_option_function<int64_t>(
          "--memory", [&bytes](int64_t megabytes) { bytes = megabytes << 20; }, text)
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->default_str(std::to_string(bytes >> 20));
}

}  // namespace cdt::cli
