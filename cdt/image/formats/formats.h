/// The decoders used by decode().
#pragma once

#include <cdt/core/error.h>
#include <cdt/image/picture.h>

namespace cdt::image {

bool is_jpeg(std::string_view bytes);
bool is_png(std::string_view bytes);
Picture decode_jpeg(std::string_view bytes, const std::string& source, int64_t channels);
Picture decode_png(std::string_view bytes, const std::string& source, int64_t channels);

/// A zeroed picture of this size.
/// @throws InvalidArgument if it has no pixels, or more than kMostPixels.
Picture blank(int64_t width, int64_t height, int64_t channels, const std::string& source);

}  // namespace cdt::image
