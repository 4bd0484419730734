#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/image/idx.h>
#include <zlib.h>

#include <cstring>
#include <vector>

namespace cdt::image {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 32;
constexpr unsigned char kUnsignedBytes = 0x08;
constexpr size_t kMostDimensions = 8;
/// At a time, of what is inflated.
constexpr size_t kPiece = size_t{1} << 16;

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

/// The whole, if it is no longer than `kMostBytes`.
std::string inflate_gzip(std::string_view bytes, const std::string& source) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  CDT_REQUIRE(inflateInit2(&stream, kGzip) == Z_OK, source, ": zlib could not be started");
  const struct Closer {
    z_stream& stream;
    ~Closer() { inflateEnd(&stream); }
  } closer{stream};
  std::string whole;
  size_t taken = 0;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const size_t piece = std::min(kPiece, bytes.size() - taken);
      stream.next_in =
          reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data() + taken));  // it reads
      stream.avail_in = static_cast<unsigned int>(piece);
      taken += piece;
    }
    const size_t before = whole.size();
    whole.resize(before + kPiece);
    stream.next_out = reinterpret_cast<unsigned char*>(whole.data() + before);
    stream.avail_out = kPiece;
    status = inflate(&stream, Z_NO_FLUSH);
    whole.resize(before + kPiece - stream.avail_out);
    const bool goes_on = status == Z_OK || status == Z_STREAM_END;
    CDT_REQUIRE(goes_on, source, ": expected a whole gzip file, but it is damaged or cut short");
    CDT_REQUIRE(whole.size() <= kMostBytes, source, ": expected at most 4 GiB, but it unpacks to ",
                "more");
  }
  return whole;
}

}  // namespace

torch::Tensor parse_idx(std::string_view bytes, const std::string& source) {
  if (is_gzip(bytes)) {
    const std::string whole = inflate_gzip(bytes, source);
    CDT_REQUIRE(!is_gzip(whole), source, ": expected an IDX file, but came one gzipped twice");
    return parse_idx(whole, source);
  }
  CDT_REQUIRE(bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0, source,
              ": expected an IDX file, which begins with two zero bytes");
  const auto kind = static_cast<unsigned char>(bytes[2]);
  const auto dimensions = static_cast<unsigned char>(bytes[3]);
  CDT_REQUIRE(kind == kUnsignedBytes, source, ": expected an IDX file of unsigned bytes (8), but ",
              "came the kind ", int{kind});
  CDT_REQUIRE(dimensions >= 1 && dimensions <= kMostDimensions, source,
              ": expected 1 to 8 dimensions, but came ", int{dimensions});
  const size_t header = 4 + 4 * size_t{dimensions};
  CDT_REQUIRE(bytes.size() >= header, source, ": the file ends within its header");
  std::vector<int64_t> shape;
  uint64_t count = 1;
  for (size_t d = 0; d < dimensions; ++d) {
    uint64_t size = 0;
    for (size_t b = 0; b < 4; ++b) {
      size = size << 8 | static_cast<unsigned char>(bytes[4 + 4 * d + b]);
    }
    CDT_REQUIRE(size > 0 && size <= kMostBytes / count, source,
                ": expected sizes from 1 and 4 GiB ", "in all, but dimension ", d + 1,
                " has the size ", size);
    count *= size;
    shape.push_back(static_cast<int64_t>(size));
  }
  CDT_REQUIRE(bytes.size() - header == count, source, ": its header says ", count,
              " bytes, but there are ", bytes.size() - header);
  torch::Tensor values = torch::empty(shape, torch::kUInt8);
  std::memcpy(values.data_ptr<uint8_t>(), bytes.data() + header, count);
  return values;
}

torch::Tensor read_idx(const std::filesystem::path& path) {
  return parse_idx(read_file(path, kMostBytes), path.string());
}

}  // namespace cdt::image
