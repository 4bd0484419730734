/// TOML of configurations and experiments, read within bounds.
#pragma once

#include <cdt/core/json.h>

namespace cdt::cli {

/// The values of a TOML text by their keys, in the order of the keys. `source` is the file's name,
/// for messages.
/// @throws InvalidArgument, with the line, if the text is not TOML, is longer than a megabyte,
/// nests
///   deeper than 16 or has a key of more than 16 parts; and if a value is a date or a time.
JsonValue parse_toml(std::string_view text, const std::string& source);
/// @throws InvalidArgument likewise, and if the file cannot be read.
JsonValue read_toml(const std::filesystem::path& path);

}  // namespace cdt::cli
