/// Reading whole files and replacing them atomically.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace cdt {

/// The bytes of a file.
/// @throws InvalidArgument if it cannot be read or is a folder; the message names it.
std::string read_file(const std::filesystem::path& path);

/// Writes `pieces` one after another to a temporary file beside `path`, syncs it, then renames it
/// over `path`: a reader sees the old file or the new one, never a part, and a failure (full disk,
/// no permission) leaves the old one as it was.
/// @throws InvalidArgument if the folder does not exist or cannot be written (the message carries
/// the system's reason).
void write_file_atomically(const std::filesystem::path& path,
                           const std::vector<std::string_view>& pieces);

}  // namespace cdt
