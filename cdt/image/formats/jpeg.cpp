// JPEG by libjpeg. Its errors use longjmp, so frames that they skip must not have destructors.
#include <cdt/core/error.h>
#include <cdt/image/formats/formats.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>

namespace cdt::image {
namespace {

/// Files have about ten. Each scan processes the whole picture but takes only a few bytes, so more
/// could keep a reader busy.
constexpr int kMostScans = 500;

struct JpegErrors {
  jpeg_error_mgr base;  ///< first, since libjpeg uses its address
  std::jmp_buf leave;
  const char* kind = "it is damaged: ";  ///< beginning of the message
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  (*info->err->format_message)(info, errors->message);
  std::longjmp(errors->leave, 1);
}

/// A warning means damage: truncated data, or invalid bits.
void warn_of_jpeg(j_common_ptr info, int level) {
  if (level < 0) leave_jpeg(info);
}

void count_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  errors->kind = "";
  std::snprintf(errors->message, sizeof errors->message, "it has more than %d scans", kMostScans);
  std::longjmp(errors->leave, 1);
}

/// State of the reader between two calls that may fail.
struct JpegReader {
  jpeg_decompress_struct info;
  JpegErrors errors;
  jpeg_progress_mgr progress;

  bool begin(std::string_view bytes) {
    if (setjmp(errors.leave) != 0) return false;
    jpeg_create_decompress(&info);
    progress.progress_monitor = count_scans;
    info.progress = &progress;
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info, TRUE);
    return true;
  }

  bool read(J_COLOR_SPACE colours, uint8_t* pixels, size_t stride) {
    if (setjmp(errors.leave) != 0) return false;
    info.out_color_space = colours;
    jpeg_start_decompress(&info);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = pixels + info.output_scanline * stride;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }
};

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

Picture decode_jpeg(std::string_view bytes, const std::string& source, int64_t channels) {
  JpegReader reader{};
  reader.info.err = jpeg_std_error(&reader.errors.base);
  reader.errors.base.error_exit = leave_jpeg;
  reader.errors.base.emit_message = warn_of_jpeg;
  const struct Closer {
    JpegReader& reader;
    ~Closer() { jpeg_destroy_decompress(&reader.info); }
  } closer{reader};
  const auto refuse = [&] {
    throw InvalidArgument(c10::str(source, ": expected a whole JPEG file, but ", reader.errors.kind,
                                   static_cast<const char*>(reader.errors.message)));
  };
  if (!reader.begin(bytes)) refuse();
  const J_COLOR_SPACE colours = reader.info.jpeg_color_space;
  CDT_REQUIRE(colours != JCS_CMYK && colours != JCS_YCCK, source,
              ": expected grey or colours of a screen, but this JPEG has those of printers (CMYK); "
              "convert it to RGB");
  Picture picture = blank(reader.info.image_width, reader.info.image_height, channels, source);
  const auto stride = static_cast<size_t>(picture.width * channels);
  if (!reader.read(channels == 1 ? JCS_GRAYSCALE : JCS_RGB, picture.pixels.data(), stride)) {
    refuse();
  }
  return picture;
}

}  // namespace cdt::image
