/// What a wrong name on the command line stands for: other programs' names, or the nearest ones.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cdt::cli {

/// What names are of; each kind has common names of its own.
enum class NameKind { kOption, kCommand, kValue };

/// The known names that `name` may stand for, at most two; none if nothing is near.
std::vector<std::string> meant_names(NameKind kind, const std::string& name,
                                     const std::vector<std::string>& known);

/// "; did you mean --lr?", or "" if nothing is near. `name` is without dashes.
std::string option_hint(const CLI::App& command, const std::string& name);
std::string command_hint(const CLI::App& parent, const std::string& name);
std::string value_hint(const std::string& value, const std::vector<std::string>& known);

/// One of these values: method, architecture, …
CLI::Validator among(const std::vector<std::string>& known);

}  // namespace cdt::cli
