/// A seal: the last member of a JSON object, `checksum`, is that of all that stands before it. It
/// tells whether a file is as it was written (core/checksum.h), nothing more.
#pragma once

#include <string>
#include <string_view>

namespace cdt {

/// The text of an object that has members, on one line or indented by 2, with its seal.
std::string sealed(std::string object);

/// Whether there is a seal; files of earlier versions have none.
/// @throws InvalidArgument, naming the source, if it is of another text.
bool require_seal(std::string_view text, const std::string& source);

}  // namespace cdt
