// PNG by libpng's simplified interface, which reports errors by return values.
#include <cdt/core/error.h>
#include <cdt/image/formats.h>
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
    CDT_REQUIRE(done != 0, source,  // warnings are about colour profiles and the like
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

}  // namespace cdt::image
