/// Reading whole files and replacing them atomically.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace cdt {

// All messages name the path and give the system's reason. Errors of the caller (no such folder, no
// permission, a name too long) are InvalidArgument; failures of the machine (a full disk, an
// input/output error) are IoError.

/// Throws one of these, depending on the errno `code`.
[[noreturn]] void throw_file_error(std::string_view action, const std::filesystem::path& path,
                                   int code);

/// Reads a whole file.
/// @throws InvalidArgument, IoError if it cannot be read, is a folder or has more than `longest`
///   bytes.
std::string read_file(const std::filesystem::path& path,
                      size_t longest = std::numeric_limits<size_t>::max());
/// The same for a file in a run or sweep folder: also rejects pipes and devices, which could block.
std::string read_regular_file(const std::filesystem::path& path,
                              size_t longest = std::numeric_limits<size_t>::max());

/// For names of files in our folders, which must not lead elsewhere.
/// @throws InvalidArgument, calling it `what`, if the name is empty, longer than 200 bytes, begins
///   with a dot, or contains a slash or a control character.
void require_file_name(std::string_view name, std::string_view what);

/// Writes `pieces` in order to a temporary file beside `path`, syncs it, then renames it to `path`.
/// A reader sees the old file or the new one, never a part, and a failure (full disk, no
/// permission) leaves the old one unchanged. Removes temporary files of crashed writers.
/// @throws InvalidArgument, IoError if it cannot be written.
void write_file_atomically(const std::filesystem::path& path,
                           const std::vector<std::string_view>& pieces);

/// The checksum (core/io/checksum.h) of a file of any size.
/// @throws InvalidArgument, IoError if it cannot be read, or is a pipe or a device.
std::string checksum_of_file(const std::filesystem::path& path);

/// Whether a file or folder exists at `path`. Unlike std::filesystem, a failed test is an error,
/// not false.
/// @throws InvalidArgument, IoError if this cannot be determined: a parent folder may not be
///   searched, a name is too long.
bool path_exists(const std::filesystem::path& path);
bool folder_exists(const std::filesystem::path& path);

/// Creates a folder and its parents, if they do not exist.
/// @throws InvalidArgument, IoError if one cannot be created.
void make_folders(const std::filesystem::path& path);

/// Removes a file, if it exists.
/// @throws InvalidArgument, IoError if it cannot be removed.
void remove_file(const std::filesystem::path& path);

/// Removes temporary files of write_file_atomically that dead processes have left in `folder`.
/// Ignores failures.
void remove_leftovers(const std::filesystem::path& folder);

/// Whether both paths lead to the same file, under any names and links; false if one does not
/// exist.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace cdt
