/// IDX files, in which collections of digits come: a header with sizes, then bytes; plain or
/// gzipped.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace cdt::image {

/// The bytes of an IDX file as uint8, of the shape that its header says.
/// @throws InvalidArgument if it is no IDX file of bytes, says more than it holds or holds more
/// than
///   it says, or is longer than 4 GiB; of gzipped ones also if they are damaged.
torch::Tensor parse_idx(std::string_view bytes, const std::string& source);
/// The same from a file.
/// @throws InvalidArgument, IoError likewise, or if it cannot be read.
torch::Tensor read_idx(const std::filesystem::path& path);

}  // namespace cdt::image
