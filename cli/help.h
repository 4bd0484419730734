/// What `--help` and `--help-all` print: options in the groups of the table of settings.
#pragma once

#include <cdt/study/settings.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace cdt::cli {

using OptionGroup = study::Setting::Group;

/// An example for each group of options.
using GroupExamples = std::map<OptionGroup, std::string>;

/// Sets the help of a command: `--help` shows the important options, `--help-all` all of them.
void add_help(CLI::App& command, const GroupExamples& examples = {});

/// The values that an option accepts; empty if they are not listed.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace cdt::cli
