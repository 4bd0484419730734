/// TOML of configurations and experiments, read within bounds.
#pragma once

#include <cdt/core/io/json.h>

namespace cdt::cli {

/// The values of a TOML text by their keys, in the order of the keys. `source` is the file's name,
/// for messages.
/// @throws InvalidArgument, with the line, if the text is not TOML, is longer than a megabyte,
/// nests
///   deeper than 16 or has a key of more than 16 parts; and if a value is a date or a time.
///   And any text if the program was built without toml++: the message names the package.
JsonValue parse_toml(std::string_view text, const std::string& source);
/// An experiment that the program has built in: TOML, or the same as JSON where the program was
/// built without toml++.
JsonValue parse_built_in(std::string_view text, const std::string& source);
/// @throws InvalidArgument likewise, and if the file cannot be read.
JsonValue read_toml(const std::filesystem::path& path);

}  // namespace cdt::cli
