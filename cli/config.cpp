// --config and --resume: inserts options from a file before those of the command line, which take
// precedence.
#include <cdt/core/error.h>
#include <cdt/run/folder.h>

#include <array>
#include <cmath>

#include "cli/command.h"
#include "cli/toml_file.h"

namespace cdt::cli {
namespace {

/// Values by option name, without dashes.
using Settings = std::map<std::string, nlohmann::ordered_json>;

/// Options that are not settings.
constexpr std::array kOfOneCall{"config", "resume", "help", "help-all"};

/// A value as written on the command line.
std::string spell_option(const nlohmann::ordered_json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float() && value == std::floor(value.get<double>()) &&
      std::abs(value.get<double>()) < 1e15) {
    return std::to_string(value.get<int64_t>());  // 1e3 steps
  }
  if (value.is_number()) return value.dump();
  throw InvalidArgument(
      c10::str(where, ": expected a value or a list of values, got ", excerpt(value)));
}

/// The same for a list: a line of CSV. An option with a single value gets it unchanged.
std::string spell_option(const nlohmann::ordered_json& value, const CLI::Option& option,
                         const std::string& where) {
  if (!value.is_array()) return spell_option(value, where);
  if (value.size() == 1 && option.get_items_expected_max() == 1) {
    return spell_option(value[0], where);
  }
  std::string list;
  for (const auto& item : value) {
    list += (list.empty() ? "" : ",") + data::csv_field(spell_option(item, where));
  }
  return list;
}

/// The option of this name, a flag (--name) or a positional argument (NAME); nullptr if there is
/// none.
const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  if (std::find(kOfOneCall.begin(), kOfOneCall.end(), name) != kOfOneCall.end()) return nullptr;
  if (const CLI::Option* flag = command.get_option_no_throw("--" + name)) return flag;
  std::string place = name;
  std::transform(place.begin(), place.end(), place.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return command.get_option_no_throw(place);
}

bool is_place(const CLI::Option& option) { return option.get_lnames().empty(); }

/// Keys at the top level and in the command's table, which takes precedence. Skips the tables of
/// other commands, and top-level keys that only those have.
Settings read_config(const std::string& path, const CLI::App& command,
                     const std::vector<const CLI::App*>& commands) {
  const JsonValue table = read_toml(path);
  Settings settings;
  const auto take = [&](const JsonValue& values, bool top) {
    for (const auto& [key, value] : values.members()) {
      std::string name = key;
      const auto any = [&](auto&& holds) {
        return std::any_of(commands.begin(), commands.end(), holds);
      };
      const bool is_table = value.raw().is_object();
      CDT_REQUIRE(
          !is_table || (top && any([&](const CLI::App* each) { return each->get_name() == name; })),
          path, ": the table [", name, "] belongs to no command");
      if (is_table) continue;
      std::replace(name.begin(), name.end(), '_', '-');
      const bool others =
          find_option(command, name) == nullptr && top &&
          any([&](const CLI::App* each) { return find_option(*each, name) != nullptr; });
      if (!others) settings[name] = value.raw();
    }
  };
  take(table, true);
  const JsonValue own = table[command.get_name()];
  if (own.raw().is_object()) take(own, false);
  return settings;
}

/// Reads only settings of the run from run.json: a foreign folder must not choose output files.
Settings read_run(const std::filesystem::path& path) {
  const run::RunFolder folder(path);
  Settings settings;
  for (const auto& [name, values] : folder.read_record().settings) {
    const auto& known = run::all_settings();
    CDT_REQUIRE(
        std::any_of(known.begin(), known.end(),
                    [&, &name = name](const run::Setting& each) { return each.name == name; }),
        folder.run().string(), ": settings.", name, ": there is no such setting of a run");
    if (name == "cache") continue;  // a path to which the program writes
    settings[name] = values.empty() ? nlohmann::ordered_json(true) : nlohmann::ordered_json(values);
  }
  return settings;
}

/// The argument that sets `name` to `value`; empty if none is needed.
std::string to_argument(const CLI::App& command, const std::string& name,
                        const nlohmann::ordered_json& value, const std::string& source) {
  const CLI::Option* option = find_option(command, name);
  CDT_REQUIRE(option != nullptr, source, ": there is no setting '", name, "'",
              option_hint(command, name), "; cdt ", command.get_name(), " --help lists them");
  const std::string text = spell_option(value, *option, source);
  if (option->get_items_expected_max() == 0) {
    CDT_REQUIRE(text == "true" || text == "false", source, ": ", name,
                " must be true or false, got ", value.dump());
    return text == "true" ? "--" + name : "";
  }
  CDT_REQUIRE(!text.empty() || value.is_array(), source, ": ", name, " has no value");
  // A file name, even if it starts like a flag.
  if (is_place(*option)) return text.starts_with('-') ? "./" + text : text;
  return text.empty() ? text : c10::str("--", name, "=", text);
}

/// The options given on the command line, by name, with their values; "" stands for positional
/// arguments.
std::map<std::string, std::string> given_options(const CLI::App& command,
                                                 const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--")) {
      given[""] = argument;
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

/// Whether the command line gives an option that excludes this one; the command line takes
/// precedence.
bool excluded(const CLI::Option& option, const std::map<std::string, std::string>& given) {
  const auto others = option.get_excludes();
  return std::any_of(others.begin(), others.end(), [&](const CLI::Option* other) {
    return !other->get_lnames().empty() && given.contains(other->get_lnames().front());
  });
}

}  // namespace

std::vector<std::string> expand_arguments(const CLI::App& app, std::vector<std::string> arguments) {
  const auto below = [](const CLI::App* parent) {
    return parent->get_subcommands([](const CLI::App*) { return true; });
  };
  std::vector<const CLI::App*> commands = below(&app);
  for (size_t i = 0; i < commands.size(); ++i) {
    const auto further = below(commands[i]);
    commands.insert(commands.end(), further.begin(), further.end());
  }
  // Descend to the command that the arguments name: train, or make of data.
  const CLI::App* command = &app;
  std::vector<std::string> expanded;
  while (expanded.size() < arguments.size()) {
    const auto children = below(command);
    const auto named = std::find_if(children.begin(), children.end(), [&](const CLI::App* each) {
      return each->get_name() == arguments[expanded.size()];
    });
    if (named == children.end()) break;
    command = *named;
    expanded.push_back(command->get_name());
  }
  if (command == &app) return arguments;
  arguments.erase(arguments.begin(),
                  arguments.begin() + static_cast<std::ptrdiff_t>(expanded.size()));
  const auto given = given_options(*command, arguments);
  Settings settings;
  std::string source;
  if (given.contains("resume") && command->get_option_no_throw("--resume") != nullptr) {
    const std::string& named = given.at("resume");
    const auto out = given.find("out");
    CDT_REQUIRE(!named.empty() || out != given.end(),
                "--resume needs the folder of the run: --resume DIR, or --out DIR --resume");
    CDT_REQUIRE(!given.contains("config"),
                "--config and --resume exclude each other: a run goes on with its own settings");
    source = named.empty() ? out->second : named;
    settings = read_run(source);
  } else if (given.contains("config") && command->get_option_no_throw("--config") != nullptr) {
    source = given.at("config");
    settings = read_config(source, *command, commands);
  }
  for (const auto& [name, value] : settings) {
    const CLI::Option* option = find_option(*command, name);
    if (given.contains(name) || (option != nullptr && is_place(*option))) continue;
    if (option != nullptr && excluded(*option, given)) continue;
    std::string argument = to_argument(*command, name, value, source);
    if (!argument.empty()) expanded.push_back(std::move(argument));
  }
  for (const CLI::Option* option : command->get_options()) {
    // Positional arguments come from the command line or from the file.
    if (!is_place(*option) || given.contains("") || excluded(*option, given)) continue;
    std::string name = option->get_name();
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    if (settings.contains(name)) {
      expanded.push_back(to_argument(*command, name, settings.at(name), source));
    }
  }
  expanded.insert(expanded.end(), arguments.begin(), arguments.end());
  return expanded;
}

}  // namespace cdt::cli
