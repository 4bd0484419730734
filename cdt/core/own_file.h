/// Files of folders that we write, and that may have come from elsewhere.
#pragma once

#include <cdt/core/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <string_view>
#include <vector>

namespace cdt {

/// As write_file_atomically, but what has the name is replaced: a link is not followed, a pipe not
/// fed.
/// @throws InvalidArgument, IoError likewise.
inline void write_own_file(const std::filesystem::path& path,
                           const std::vector<std::string_view>& pieces) {
  struct stat status {};
  const bool there = ::lstat(path.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) remove_file(path);
  write_file_atomically(path, pieces);
}

}  // namespace cdt
