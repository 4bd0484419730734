/// Files of folders that we write, and that may have come from elsewhere.
#pragma once

#include <cdt/core/file.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace cdt {

/// As write_file_atomically, but what has the name is replaced: a link is not followed, a pipe not
/// fed.
/// @throws InvalidArgument, IoError likewise.
inline void write_own_file(const std::filesystem::path& path,
                           const std::vector<std::string_view>& pieces) {
  std::error_code unknown;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, unknown);
  if (std::filesystem::is_symlink(status) || std::filesystem::is_other(status)) remove_file(path);
  write_file_atomically(path, pieces);
}

}  // namespace cdt
