// --config and --resume: options from a file stand before those of the command line, which win.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <toml++/toml.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"

namespace cdt::cli {
namespace {

/// By the names of the options, without their dashes.
using Settings = std::map<std::string, nlohmann::json>;

/// The name of the option that holds FILE, in files.
constexpr const char* kPositional = "file";
/// Options that are no settings.
constexpr std::array kNoSettings{"config", "resume", "help"};

/// A value as the command line would spell it; lists with commas between.
std::string spell(const nlohmann::json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float() && value == std::floor(value.get<double>()) &&
      std::abs(value.get<double>()) < 1e15) {
    return std::to_string(value.get<int64_t>());  // 1e3 steps
  }
  if (value.is_number()) return value.dump();
  CDT_REQUIRE(value.is_array(), where, ": expected a value or a list of values");
  std::string list;
  for (const auto& item : value) list += (list.empty() ? "" : ",") + spell(item, where);
  return list;
}

nlohmann::json to_json(const toml::node& node, const std::string& where) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  const auto* array = node.as_array();
  CDT_REQUIRE(array != nullptr, where, ": expected a value or a list of values");
  nlohmann::json list = nlohmann::json::array();
  for (const toml::node& item : *array) list.push_back(to_json(item, where));
  return list;
}

/// Keys at the top and in the table of the command, which win; other commands' tables are skipped.
Settings read_config(const std::string& path, const std::string& command,
                     const std::vector<std::string>& commands) {
  toml::table table;
  try {
    table = toml::parse(read_file(path), path);
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(c10::str(path, ", line ", error.source().begin.line, ": ",
                                   std::string(error.description())));
  }
  Settings settings;
  const auto take = [&](const toml::table& values, bool top) {
    for (const auto& [key, node] : values) {
      std::string name(key.str());
      const bool known = std::find(commands.begin(), commands.end(), name) != commands.end();
      CDT_REQUIRE(!node.is_table() || (top && known), path, ": the table [", name,
                  "] belongs to no command");
      if (node.is_table()) continue;
      std::replace(name.begin(), name.end(), '_', '-');
      settings[name] = to_json(node, c10::str(path, ", ", name));
    }
  };
  take(table, true);
  if (const auto* own = table[command].as_table()) take(*own, false);
  return settings;
}

Settings read_run(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "run.json";
  CDT_REQUIRE(std::filesystem::exists(path), folder.string(),
              ": expected the folder of a run, but it has no run.json");
  try {
    return nlohmann::json::parse(read_file(path)).at("settings").get<Settings>();
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(c10::str(path.string(), ": cannot be read: ", error.what()));
  }
}

/// The arguments that say `name` = `value`.
std::string to_argument(const CLI::App& command, const std::string& name,
                        const nlohmann::json& value, const std::string& source) {
  const CLI::Option* option = command.get_option_no_throw("--" + name);
  CDT_REQUIRE(option != nullptr &&
                  std::find(kNoSettings.begin(), kNoSettings.end(), name) == kNoSettings.end(),
              source, ": there is no setting '", name, "'; cdt ", command.get_name(),
              " --help lists them");
  const std::string text = spell(value, source);
  if (option->get_items_expected_max() == 0) {
    CDT_REQUIRE(text == "true" || text == "false", source, ": ", name,
                " must be true or false, not ", value.dump());
    return text == "true" ? "--" + name : "";
  }
  CDT_REQUIRE(!text.empty() || value.is_array(), source, ": ", name, " has no value");
  return text.empty() ? "" : c10::str("--", name, "=", text);
}

/// What the command line itself gives: names of options (with "file" for FILE) and their values.
std::map<std::string, std::string> given_options(const CLI::App& command,
                                                 const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> given;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--")) {
      given[kPositional] = argument;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const CLI::Option* option = command.get_option_no_throw("--" + name);
    given[name] = equals == std::string::npos ? "" : argument.substr(equals + 1);
    const bool takes_value = option != nullptr && option->get_items_expected_max() > 0;
    if (equals == std::string::npos && takes_value && i + 1 < arguments.size() &&
        !arguments[i + 1].starts_with("--")) {
      given[name] = arguments[++i];
    }
  }
  return given;
}

}  // namespace

std::vector<std::string> expand_arguments(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  const auto commands = app.get_subcommands({});
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* each) {
    return each->get_name() == arguments[0];
  });
  if (found == commands.end()) return arguments;
  const CLI::App* command = *found;
  const auto given = given_options(*command, arguments);
  Settings settings;
  std::string source;
  if (given.contains("resume") && command->get_option_no_throw("--resume") != nullptr) {
    const std::string& named = given.at("resume");
    const auto out = given.find("out");
    CDT_REQUIRE(!named.empty() || out != given.end(),
                "--resume needs the folder of the run: --resume DIR, or --out DIR --resume");
    source = named.empty() ? out->second : named;
    settings = read_run(source);
    CDT_REQUIRE(!given.contains("config"),
                "--config and --resume exclude each other: a run goes on "
                "with its own settings");
  } else if (given.contains("config") && command->get_option_no_throw("--config") != nullptr) {
    std::vector<std::string> names;
    for (const CLI::App* each : commands) names.push_back(each->get_name());
    source = given.at("config");
    settings = read_config(source, arguments[0], names);
  }
  std::vector<std::string> expanded{arguments[0]};
  std::vector<std::string> file;
  for (const auto& [name, value] : settings) {
    if (given.contains(name)) continue;
    if (name == kPositional) {
      file = {spell(value, source)};
    } else if (auto argument = to_argument(*command, name, value, source); !argument.empty()) {
      expanded.push_back(std::move(argument));
    }
  }
  expanded.insert(expanded.end(), file.begin(), file.end());
  expanded.insert(expanded.end(), arguments.begin() + 1, arguments.end());
  return expanded;
}

}  // namespace cdt::cli
