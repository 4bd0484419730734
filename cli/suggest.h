/// Suggestions for an unknown name on the command line: equivalents of other programs' names, or
/// the nearest ones.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cdt::cli {

/// The kind of a name; each kind has its own list of common names.
enum class NameKind { kOption, kCommand, kValue };

/// The known names that `name` may mean, at most two; empty if none is near.
std::vector<std::string> meant_names(NameKind kind, const std::string& name,
                                     const std::vector<std::string>& known);

/// "; did you mean --lr?", or "" if no name is near. `name` has no dashes.
std::string option_hint(const CLI::App& command, const std::string& name);
std::string command_hint(const CLI::App& parent, const std::string& name);
std::string value_hint(const std::string& value, const std::vector<std::string>& known);

/// Accepts one of these values: method, architecture, …
CLI::Validator among(const std::vector<std::string>& known);

}  // namespace cdt::cli
