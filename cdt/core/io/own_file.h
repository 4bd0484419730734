/// Files and folders of ours, that may have come from elsewhere: no link in them is followed.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <string_view>
#include <vector>

namespace cdt {

/// As write_file_atomically, but what has the name is replaced: a link is not followed, a pipe not
/// fed. `mode` is that of a file that was not there; the process's mask narrows it.
/// @throws InvalidArgument, IoError likewise.
void write_own_file(const std::filesystem::path& path, const std::vector<std::string_view>& pieces,
                    unsigned mode = 0666);

/// Makes the folder, if it is not there.
/// @throws InvalidArgument, IoError if it cannot be made, or is a link or a file.
void make_own_folder(const std::filesystem::path& path);

/// Makes renames and new files in it survive a power failure.
/// @throws InvalidArgument, IoError if the machine cannot promise it.
void sync_folder(const std::filesystem::path& folder);

}  // namespace cdt
