/// Writes files in run and sweep folders, without following links.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <string_view>
#include <vector>

namespace cdt {

/// As write_file_atomically, but replaces whatever has this name: links are not followed, pipes not
/// written to. `mode` is that of a new file, restricted by the process's umask.
/// @throws InvalidArgument, IoError likewise.
void write_own_file(const std::filesystem::path& path, const std::vector<std::string_view>& pieces,
                    unsigned mode = 0666);

/// Creates the folder, if it does not exist.
/// @throws InvalidArgument, IoError if it cannot be created, or is a link or a file.
void make_own_folder(const std::filesystem::path& path);

/// Syncs a folder, so that renames and new files in it survive a power failure.
/// @throws InvalidArgument, IoError if the machine cannot guarantee it.
void sync_folder(const std::filesystem::path& folder);

}  // namespace cdt
