/// A seal: a member of a JSON object, `sealed`, says that it has one; the last, `checksum`, is that
/// of all that stands before it. It tells whether a file is as it was written
/// (core/io/checksum.h), nothing more.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace cdt {

/// The text of an object that has members, on one line or indented by 2, with its seal.
std::string sealed(std::string object);

/// Whether there is a seal. Files of earlier versions have none, or no `sealed`: of those a text
/// whose end resembles a seal has had one.
/// @throws InvalidArgument, naming the source, if it is of another text, or is gone.
bool require_seal(std::string_view text, const std::string& source);

/// The text of a file in a folder of ours, which is as it was written if it has a seal.
/// @throws InvalidArgument, IoError if it cannot be read, or is damaged.
std::string read_sealed(const std::filesystem::path& path);

}  // namespace cdt
