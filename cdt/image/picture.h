/// Pictures: JPEG and PNG files to pixels, and pixels to features.
///
/// Files are untrusted. Sizes are checked before anything is allocated, and damaged files are
/// rejected.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::image {

/// Pixels by row from the top, each of `channels` bytes: 1 is grey, 3 are red, green and blue.
struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 3;
  std::vector<uint8_t> pixels;
};

/// Larger pictures are rejected: 100 megapixels.
inline constexpr int64_t kMostPixels = 100'000'000;

/// Decodes a JPEG or PNG file, recognised by its first bytes. With `channels` 3, grey becomes three
/// equal channels; with 1, colour becomes luminance. Alpha is blended over white; 16 bits are
/// rounded to 8. Messages call the file `source`.
/// @throws InvalidArgument if it is neither, is damaged or truncated, has more than kMostPixels, or
///   is a CMYK JPEG.
Picture decode(std::string_view bytes, const std::string& source, int64_t channels = 3);

/// Encodes a PNG file.
/// @throws InvalidArgument if the number of pixels does not match the sizes.
std::string encode_png(const Picture& picture);

/// Features [channels, height, width], float32 in [0, 1], resized with antialiasing; the aspect
/// ratio is not preserved.
/// @throws InvalidArgument if a size is not positive.
torch::Tensor to_tensor(const Picture& picture, int64_t height, int64_t width);

}  // namespace cdt::image
