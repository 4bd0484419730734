/// Reading whole files and replacing them atomically.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace cdt {

// All messages name the path and carry the system's reason. What the caller named wrongly (no such
// folder, no permission, a name that is too long) is an InvalidArgument, what the machine refuses
// (a full disk, an input/output error) is an IoError.

/// Throws one or the other, by errno `code`.
[[noreturn]] void throw_file_error(std::string_view action, const std::filesystem::path& path,
                                   int code);

/// The bytes of a file.
/// @throws InvalidArgument, IoError if it cannot be read, is a folder or has more than `longest`
/// bytes.
std::string read_file(const std::filesystem::path& path,
                      size_t longest = std::numeric_limits<size_t>::max());
/// The same of a file that lies in a folder of ours: one that could keep us waiting, a pipe or a
/// device, is refused.
std::string read_regular_file(const std::filesystem::path& path,
                              size_t longest = std::numeric_limits<size_t>::max());

/// For names that become files in a folder of ours: none leads out of it.
/// @throws InvalidArgument, calling it `what`, if the name is empty, longer than 200 bytes, begins
/// with a dot, or has a slash or a control character.
void require_file_name(std::string_view name, std::string_view what);

/// Writes `pieces` one after another to a temporary file beside `path`, syncs it, then renames it
/// over `path`: a reader sees the old file or the new one, never a part, and a failure (full disk,
/// no permission) leaves the old one as it was. Clears up what writers that died have left beside
/// it.
/// @throws InvalidArgument, IoError if it cannot be written.
void write_file_atomically(const std::filesystem::path& path,
                           const std::vector<std::string_view>& pieces);

/// The checksum (core/io/checksum.h) of a file of any size.
/// @throws InvalidArgument, IoError if it cannot be read, or is a pipe or a device.
std::string checksum_of_file(const std::filesystem::path& path);

/// Whether there is something at `path`, or a folder. Unlike std::filesystem's these never call
/// what cannot be told absent.
/// @throws InvalidArgument, IoError if it cannot be told: a folder on the way may not be searched,
///   a name is too long.
bool path_exists(const std::filesystem::path& path);
bool folder_exists(const std::filesystem::path& path);

/// Makes a folder and those above it, where they are not there yet.
/// @throws InvalidArgument, IoError if one cannot be made.
void make_folders(const std::filesystem::path& path);

/// Removes a file, if it is there.
/// @throws InvalidArgument, IoError if it stays.
void remove_file(const std::filesystem::path& path);

/// Removes the temporary files of write_file_atomically that processes which are dead have left in
/// `folder`. What is in the way stays.
void remove_leftovers(const std::filesystem::path& folder);

/// Whether both paths lead to one and the same file, by whatever names and links; false where one
/// of them is not there.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace cdt
