/// Reads TOML of configurations and experiments, with limits on size and depth.
#pragma once

#include <cdt/core/io/json.h>

namespace cdt::cli {

/// The values of a TOML text by key, in key order. `source` is the file's name, for messages.
/// @throws InvalidArgument, with the line, if the text is not TOML, is longer than a megabyte,
///   nests deeper than 16, has a key of more than 16 parts, or contains a date or a time. Always
///   throws if the program was built without toml++; the message names the package.
JsonValue parse_toml(std::string_view text, const std::string& source);
/// An experiment built into the program: TOML, or JSON if the program was built without toml++.
JsonValue parse_built_in(std::string_view text, const std::string& source);
/// @throws InvalidArgument as parse_toml, or if the file cannot be read.
JsonValue read_toml(const std::filesystem::path& path);

}  // namespace cdt::cli
