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
constexpr size_t kLongestHeader = 4 + 4 * kMostDimensions;
/// At a time, of what is unpacked.
constexpr size_t kPiece = size_t{1} << 16;
/// Bytes that one of a gzip file can stand for, at most.
constexpr uint64_t kMostOfOne = 1032;

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

/// The bytes of a gzip file, one after the other: no more of them is unpacked than is asked for.
class Unpacker {
 public:
  Unpacker(std::string_view packed, const std::string& source) : packed_(packed), source_(source) {
    constexpr int kGzip = 16 + MAX_WBITS;
    CDT_REQUIRE(inflateInit2(&stream_, kGzip) == Z_OK, source, ": zlib could not be started");
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  /// How many came: fewer than asked for where the file ends.
  size_t read(char* to, size_t count) {
    size_t got = 0;
    while (got < count && !ended_) {
      if (stream_.avail_in == 0) {
        const size_t piece = std::min(kPiece, packed_.size());
        stream_.next_in =
            reinterpret_cast<unsigned char*>(const_cast<char*>(packed_.data()));  // it reads
        stream_.avail_in = static_cast<unsigned int>(piece);
        packed_.remove_prefix(piece);
      }
      const size_t wanted = std::min(kPiece, count - got);
      stream_.next_out = reinterpret_cast<unsigned char*>(to + got);
      stream_.avail_out = static_cast<unsigned int>(wanted);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      CDT_REQUIRE(status == Z_OK || status == Z_STREAM_END, source_,
                  ": expected a whole gzip file, but it is damaged or cut short");
      got += wanted - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
    }
    return got;
  }

 private:
  z_stream stream_{};
  std::string_view packed_;  ///< what zlib has not been given
  const std::string& source_;
  bool ended_ = false;
};

/// Of a file that begins so.
std::vector<int64_t> parse_shape(std::string_view bytes, const std::string& source) {
  CDT_REQUIRE(bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0, source,
              ": expected an IDX file, which begins with two zero bytes");
  const auto kind = static_cast<unsigned char>(bytes[2]);
  const auto dimensions = static_cast<unsigned char>(bytes[3]);
  CDT_REQUIRE(kind == kUnsignedBytes, source, ": expected an IDX file of unsigned bytes (8), but ",
              "came the kind ", int{kind});
  CDT_REQUIRE(dimensions >= 1 && dimensions <= kMostDimensions, source,
              ": expected 1 to 8 dimensions, but came ", int{dimensions});
  CDT_REQUIRE(bytes.size() >= 4 + 4 * size_t{dimensions}, source,
              ": the file ends within its header");
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
  return shape;
}

size_t header_of(const std::vector<int64_t>& shape) { return 4 + 4 * shape.size(); }

template <class Came>
void require_count(bool all, size_t count, const Came& came, const std::string& source) {
  CDT_REQUIRE(all, source, ": its header says ", count, " bytes, but there are ", came);
}

torch::Tensor parse_plain(std::string_view bytes, const std::string& source) {
  const std::vector<int64_t> shape = parse_shape(bytes, source);
  bytes.remove_prefix(header_of(shape));
  const auto count = static_cast<size_t>(c10::multiply_integers(shape));
  require_count(bytes.size() == count, count, bytes.size(), source);
  torch::Tensor values = torch::empty(shape, torch::kUInt8);
  std::memcpy(values.data_ptr<uint8_t>(), bytes.data(), count);
  return values;
}

/// Unpacks no more than the header says.
torch::Tensor parse_gzip(std::string_view packed, const std::string& source) {
  Unpacker unpacker(packed, source);
  char begin[kLongestHeader];
  std::string_view first(begin, unpacker.read(begin, sizeof begin));
  CDT_REQUIRE(!is_gzip(first), source, ": expected an IDX file, but came one gzipped twice");
  const std::vector<int64_t> shape = parse_shape(first, source);
  first.remove_prefix(header_of(shape));
  const auto count = static_cast<size_t>(c10::multiply_integers(shape));
  require_count(count <= packed.size() * kMostOfOne, count, "fewer", source);
  require_count(first.size() <= count, count, "more", source);
  torch::Tensor values = torch::empty(shape, torch::kUInt8);
  auto* to = reinterpret_cast<char*>(values.data_ptr<uint8_t>());
  std::memcpy(to, first.data(), first.size());
  const size_t got = first.size() + unpacker.read(to + first.size(), count - first.size());
  require_count(got == count, count, got, source);
  char beyond = 0;
  require_count(unpacker.read(&beyond, 1) == 0, count, "more", source);
  return values;
}

}  // namespace

torch::Tensor parse_idx(std::string_view bytes, const std::string& source) {
  return is_gzip(bytes) ? parse_gzip(bytes, source) : parse_plain(bytes, source);
}

torch::Tensor read_idx(const std::filesystem::path& path) {
  return parse_idx(read_file(path, kMostBytes), path.string());
}

}  // namespace cdt::image
