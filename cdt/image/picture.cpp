#include <cdt/core/error.h>
#include <cdt/image/formats/formats.h>

namespace cdt::image {

Picture blank(int64_t width, int64_t height, int64_t channels, const std::string& source) {
  CDT_REQUIRE(width > 0 && height > 0, source, ": expected a picture, but it has ", width, " × ",
              height, " pixels");
  CDT_REQUIRE(width <= kMostPixels / height, source, ": expected at most ", kMostPixels / 1'000'000,
              " megapixels, but it has ", width, " × ", height, " pixels");
  Picture picture{width, height, channels, {}};
  picture.pixels.resize(static_cast<size_t>(width * height * channels));
  return picture;
}

Picture decode(std::string_view bytes, const std::string& source, int64_t channels) {
  CDT_REQUIRE(channels == 1 || channels == 3, "a picture has 1 or 3 channels, got ", channels);
  CDT_REQUIRE(!bytes.empty(), source, ": expected a picture, but the file is empty");
  if (is_jpeg(bytes)) return decode_jpeg(bytes, source, channels);
  CDT_REQUIRE(is_png(bytes), source, ": expected a JPEG or PNG file, but it begins like neither");
  return decode_png(bytes, source, channels);
}

torch::Tensor to_tensor(const Picture& picture, int64_t height, int64_t width) {
  CDT_REQUIRE(height > 0 && width > 0, "a picture cannot be resized to ", height, " × ", width);
  const torch::Tensor bytes =
      torch::from_blob(const_cast<uint8_t*>(picture.pixels.data()),
                       {picture.height, picture.width, picture.channels}, torch::kUInt8);
  const torch::NoGradGuard no_graph;
  torch::Tensor small = torch::empty({picture.channels, height, width}, torch::kFloat32);
  for (int64_t c = 0; c < picture.channels; ++c) {  // one by one, since pictures may be large
    const torch::Tensor pixels =
        bytes.select(2, c).to(torch::kFloat32).contiguous().div_(255).unsqueeze(0).unsqueeze(0);
    small[c].copy_(at::_upsample_bilinear2d_aa(pixels, {height, width}, /*align_corners=*/false,
                                               c10::nullopt, c10::nullopt)[0][0]);
  }
  return small.clamp_(0, 1);
}

}  // namespace cdt::image
