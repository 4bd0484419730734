// PNG by libpng's simplified interface, which reports errors by return values.
#include <cdt/core/error.h>
#include <cdt/image/formats/formats.h>
#include <png.h>

namespace cdt::image {

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

Picture decode_png(std::string_view bytes, const std::string& source, int64_t channels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const struct Closer {
    png_image& image;
    ~Closer() { png_image_free(&image); }
  } closer{image};
  const auto require_sound = [&](int done) {
    CDT_REQUIRE(done != 0, source,  // warnings concern colour profiles and similar
                ": expected a whole PNG file, but it is damaged: ",
                static_cast<const char*>(image.message));
  };
  require_sound(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  Picture picture = blank(image.width, image.height, channels, source);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const png_color white{255, 255, 255};
  require_sound(png_image_finish_read(&image, &white, picture.pixels.data(), 0, nullptr));
  return picture;
}

std::string encode_png(const Picture& picture) {
  const auto bytes = static_cast<size_t>(picture.width * picture.height * picture.channels);
  CDT_REQUIRE(bytes > 0 && picture.pixels.size() == bytes &&
                  (picture.channels == 1 || picture.channels == 3),
              "expected a picture of 1 or 3 channels with ", bytes, " bytes, got ",
              picture.channels, " and ", picture.pixels.size());
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(size, '\0');
  const int done =
      png_image_write_to_memory(&image, file.data(), &size, 0, picture.pixels.data(), 0, nullptr);
  CDT_REQUIRE(done != 0, "a PNG file could not be made: ", static_cast<const char*>(image.message));
  file.resize(size);
  return file;
}

}  // namespace cdt::image
