/// Pictures: JPEG and PNG files to pixels, and pixels to features.
///
/// Files come from anywhere. Sizes are read and judged before anything is allocated for them, and
/// what is damaged is refused, not guessed.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::image {

/// Pixels in rows from the top, each of `channels` bytes: 1 is grey, 3 are red, green and blue.
struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 3;
  std::vector<uint8_t> pixels;
};

/// Pictures with more pixels than this are refused: 100 megapixels.
inline constexpr int64_t kMostPixels = 100'000'000;

/// Decodes a JPEG or PNG file, by its first bytes and not by its name. Colour comes as it is, grey
/// as three equal channels if `channels` is 3; colour as its luminance if `channels` is 1; alpha is
/// laid over white; 16 bits are rounded to 8. `source` stands for the file in messages.
/// @throws InvalidArgument if it is neither, is damaged or cut short, has more than kMostPixels, or
///   is a JPEG in the colours of printers (CMYK).
Picture decode(std::string_view bytes, const std::string& source, int64_t channels = 3);

/// The bytes of a PNG file.
/// @throws InvalidArgument if the pixels are not as many as the sizes say.
std::string encode_png(const Picture& picture);

/// As features: [channels, height, width], float32 in [0, 1], resized with antialiasing; the aspect
/// ratio gives way.
/// @throws InvalidArgument if a size is not positive.
torch::Tensor to_tensor(const Picture& picture, int64_t height, int64_t width);

}  // namespace cdt::image
