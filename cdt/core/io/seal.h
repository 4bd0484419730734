/// Seals of JSON objects: the member `sealed` announces a seal; the last member, `checksum`, is
/// that of all text before it. A seal detects damage only (core/io/checksum.h).
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace cdt {

/// The text of a non-empty object, on one line or indented by 2, with its seal.
std::string sealed(std::string object);

/// Checks the seal; returns whether there is one. Files of earlier versions have none, or lack
/// `sealed`; of these, a text whose end resembles a seal had one.
/// @throws InvalidArgument, naming the source, if the seal does not match the text, or is missing.
bool require_seal(std::string_view text, const std::string& source);

/// Reads a file of a run or sweep folder, and checks its seal if it has one.
/// @throws InvalidArgument, IoError if it cannot be read, or is damaged.
std::string read_sealed(const std::filesystem::path& path);

}  // namespace cdt
