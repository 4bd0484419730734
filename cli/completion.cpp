// cdt completion: a script for bash, zsh or fish, generated from the commands and their options.
#include <cdt/core/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/help.h"
#include "cli/suggest.h"

namespace cdt::cli {
namespace {

struct OptionRow {
  std::string name;  ///< with its dashes
  std::string help;  ///< up to the end of the first sentence, without shell metacharacters
  std::vector<std::string> values;
  bool takes_value = false;
};

/// A command as typed after "cdt ": "train", "data make"; "" is the program itself.
struct CommandRow {
  std::string path;
  std::string help;
  std::vector<std::string> below;  ///< names of its subcommands
  std::vector<OptionRow> options;
};

std::string short_help(const std::string& text) {
  std::string line = text.substr(0, std::min(text.find(". "), text.find_first_of(";(")));
  std::ranges::replace(line, ':', ',');
  std::erase_if(line, [](char c) {
    return std::string_view("'\"`$[]\\\n").find(c) != std::string_view::npos;
  });
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

void collect(const CLI::App& app, const std::string& path, std::vector<CommandRow>& rows) {
  CommandRow row{path, short_help(app.get_description()), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      row.options.push_back({"--" + name, short_help(option->get_description()),
                             choices_of(*option), option->get_items_expected_max() > 0});
    }
  }
  const auto below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* each : below) row.below.push_back(each->get_name());
  rows.push_back(row);
  for (const CLI::App* each : below) {
    collect(*each, path.empty() ? each->get_name() : path + " " + each->get_name(), rows);
  }
}

std::string options_of(const CommandRow& row) {
  std::string text;
  for (const OptionRow& each : row.options) text += (text.empty() ? "" : " ") + each.name;
  return text;
}

/// Completes by position: commands, values of the preceding option, or options. Otherwise file
/// names.
std::string bash_script(const std::vector<CommandRow>& rows) {
  std::string commands, options, values;
  for (const CommandRow& row : rows) {
    if (!row.below.empty()) {
      commands += fmt::format("    '{}') words='{}' ;;\n", row.path, fmt::join(row.below, " "));
    }
    options += fmt::format("    '{}') words='{}' ;;\n", row.path, options_of(row));
    for (const OptionRow& each : row.options) {
      if (each.values.empty()) continue;
      values += fmt::format("    '{} {}') words='{}' ;;\n", row.path, each.name,
                            fmt::join(each.values, " "));
    }
  }
  return fmt::format(R"(# bash completion of cdt; written by "cdt completion bash".
_cdt() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path= words= i
  if [ "$current" = = ]; then current=; fi
  if [ "$before" = = ]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  for ((i = 1; i < COMP_CWORD && i < 3; i++)); do
    case "$path ${{COMP_WORDS[i]}}" in
      ' '-*) break ;;
      ' '*) path=${{COMP_WORDS[i]}} ;;
      'data '[a-z]*) path="data ${{COMP_WORDS[i]}}" ;;
    esac
  done
  COMPREPLY=()
  case "$path $before" in
{}  esac
  if [ -z "$words" ]; then
    case $current in
      -*) case $path in
{}      esac ;;
      *) case $path in
{}      esac ;;
    esac
  fi
  [ -z "$words" ] || COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _cdt cdt
)",
                     values, options, commands);
}

std::string zsh_script(const std::vector<CommandRow>& rows) {
  std::string cases, commands;
  for (const CommandRow& row : rows) {
    if (row.path.empty() || row.below.size() > 0) {
      std::string list;
      for (const std::string& name : row.below) {
        const std::string path = row.path.empty() ? name : row.path + " " + name;
        const auto each = std::ranges::find(rows, path, &CommandRow::path);
        list += fmt::format(" '{}:{}'", name, each->help);
      }
      commands += fmt::format("    '{}') names=({}) ;;\n", row.path, list);
      continue;
    }
    std::string specs;
    for (const OptionRow& each : row.options) {
      const std::string value = !each.takes_value ? ""
                                : each.values.empty()
                                    ? ":value:_files"
                                    : fmt::format(":value:({})", fmt::join(each.values, " "));
      specs += fmt::format("      '{}[{}]{}' \\\n", each.name, each.help, value);
    }
    cases += fmt::format("    '{}') _arguments \\\n{}      '*:file:_files' ;;\n", row.path, specs);
  }
  return fmt::format(R"(#compdef cdt
# zsh completion of cdt; written by "cdt completion zsh".
_cdt() {{
  local path_=
  local -a names
  if (( CURRENT > 2 )); then path_=${{words[2]}}; fi
  if [[ $path_ == data ]] && (( CURRENT > 3 )); then
    path_="data ${{words[3]}}"
    shift words
    (( CURRENT-- ))
  fi
  case $path_ in
{}  esac
  if (( ${{#names}} )); then
    _describe command names
    return
  fi
  shift words
  (( CURRENT-- ))
  case $path_ in
{}  esac
}}
if [ "$funcstack[1]" = _cdt ]; then _cdt "$@"; else compdef _cdt cdt; fi
)",
                     commands, cases);
}

std::string fish_script(const std::vector<CommandRow>& rows) {
  std::string text = "# fish completion of cdt; written by \"cdt completion fish\".\n";
  for (const CommandRow& row : rows) {
    const size_t space = row.path.find(' ');
    std::string seen = row.path.empty()
                           ? "__fish_use_subcommand"
                           : "__fish_seen_subcommand_from " + row.path.substr(0, space);
    if (space != std::string::npos) {
      seen += "; and __fish_seen_subcommand_from " + row.path.substr(space + 1);
    }
    for (const std::string& name : row.below) {
      const auto each = std::ranges::find(rows, row.path.empty() ? name : row.path + " " + name,
                                          &CommandRow::path);
      const std::string others = row.path.empty()
                                     ? seen
                                     : fmt::format("{}; and not __fish_seen_subcommand_from {}",
                                                   seen, fmt::join(row.below, " "));
      text += fmt::format("complete -c cdt -f -n '{}' -a {} -d '{}'\n", others, name, each->help);
    }
    for (const OptionRow& each : row.options) {
      const std::string value = !each.takes_value ? ""
                                : each.values.empty()
                                    ? " -r"
                                    : fmt::format(" -x -a '{}'", fmt::join(each.values, " "));
      text += fmt::format("complete -c cdt -n '{}' -l {}{} -d '{}'\n", seen, each.name.substr(2),
                          value, each.help);
    }
  }
  return text;
}

}  // namespace

std::function<int()> setup_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "the shell: bash, zsh or fish")
      ->required()
      ->check(among({"bash", "zsh", "fish"}));
  app.footer(
      "Examples:\n"
      "  source <(cdt completion bash)\n"
      "  cdt completion zsh > ~/.zfunc/_cdt\n"
      "  cdt completion fish > ~/.config/fish/completions/cdt.fish");
  return [&app, shell] {
    std::vector<CommandRow> rows;
    collect(*app.get_parent(), "", rows);
    print(*shell == "bash"  ? bash_script(rows)
          : *shell == "zsh" ? zsh_script(rows)
                            : fish_script(rows));
    return 0;
  };
}

}  // namespace cdt::cli
