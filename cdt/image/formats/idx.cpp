#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/inflate.h>
#include <cdt/image/formats/idx.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

namespace cdt::image {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 32;
constexpr char kUnsignedBytes = 0x08;
constexpr int kMostDimensions = 8;
/// Bytes decompressed or skipped at a time.
constexpr size_t kPart = size_t{1} << 16;

template <class Came>
void require_size(bool all, size_t size, const Came& came, const std::string& source) {
  CDT_REQUIRE(all, source, ": its header says ", size, " bytes, but there are ", came);
}

/// Reads the header before the values.
template <class Bytes>
std::vector<int64_t> read_shape(const Bytes& bytes, const std::string& source) {
  std::array<unsigned char, 4> word{};
  const auto read_word = [&] {
    return bytes(reinterpret_cast<char*>(word.data()), word.size()) == word.size();
  };
  const bool whole = read_word();
  CDT_REQUIRE(word[0] != 0x1f || word[1] != 0x8b, source,
              ": expected an IDX file, got one gzipped twice");
  CDT_REQUIRE(whole && word[0] == 0 && word[1] == 0, source,
              ": expected an IDX file, which begins with two zero bytes");
  const int kind = word[2], dimensions = word[3];
  CDT_REQUIRE(kind == kUnsignedBytes, source, ": expected an IDX file of unsigned bytes (8), got ",
              "kind ", kind);
  CDT_REQUIRE(dimensions >= 1 && dimensions <= kMostDimensions, source,
              ": expected 1 to 8 dimensions, got ", dimensions);
  std::vector<int64_t> shape;
  uint64_t count = 1;
  for (int d = 0; d < dimensions; ++d) {
    CDT_REQUIRE(read_word(), source, ": the file ends within its header");
    uint64_t size = 0;
    for (const unsigned char byte : word) size = size << 8 | byte;
    CDT_REQUIRE(size > 0 && size <= kMostBytes / count, source,
                ": expected sizes from 1 and 4 GiB ", "in all, but dimension ", d + 1,
                " has the size ", size);
    count *= size;
    shape.push_back(static_cast<int64_t>(size));
  }
  return shape;
}

/// An open file; it remains the same file if its name is reused.
struct File {
  explicit File(const std::filesystem::path& path) : name(path.string()) {
    std::error_code none;
    CDT_REQUIRE(std::filesystem::is_regular_file(path, none), name, ": expected an IDX file, ",
                path_exists(path) ? "got none" : "but it does not exist");
    stream.open(path, std::ios::binary);
    if (!stream) throw_file_error("read", name, errno != 0 ? errno : EIO);
  }

  size_t read(char* to, size_t count) {
    stream.read(to, static_cast<std::streamsize>(count));
    if (stream.bad()) throw_file_error("read", name, EIO);
    return static_cast<size_t>(stream.gcount());
  }
  void rewind() {
    stream.clear();
    stream.seekg(0);
  }
  size_t size() {
    stream.seekg(0, std::ios::end);
    const auto end = stream.tellg();
    rewind();
    return static_cast<size_t>(end);
  }

  std::string name;
  std::ifstream stream;
  std::array<char, kPart> part{};
};

}  // namespace

IdxReader::IdxReader(const std::filesystem::path& path)
    : IdxReader(origin_of(path), path.string()) {}

IdxReader::IdxReader(std::string_view bytes, std::string source)
    : IdxReader(origin_of(bytes, source), source) {}

IdxReader::IdxReader(Origin origin, std::string source)
    : origin_(std::move(origin)), source_(std::move(source)) {
  rewind();
}

IdxReader::Origin IdxReader::origin_of(std::string_view bytes, const std::string& source) {
  const auto unpack = [bytes, source]() -> Bytes {
    const auto inflater = std::make_shared<Inflater>(bytes, Inflater::Packing::kGzip, source);
    return [inflater](char* to, size_t count) { return inflater->read(to, count); };
  };
  const auto copy = [bytes]() -> Bytes {
    return [rest = bytes](char* to, size_t count) mutable {
      const size_t copied = rest.copy(to, count);
      rest.remove_prefix(copied);
      return copied;
    };
  };
  if (is_gzip(bytes)) return {unpack, bytes.size(), true};
  return {copy, bytes.size(), false};
}

IdxReader::Origin IdxReader::origin_of(const std::filesystem::path& path) {
  const auto file = std::make_shared<File>(path);
  const auto unpack = [file]() -> Bytes {
    file->rewind();
    const auto part = [file]() -> std::string_view {
      return {file->part.data(), file->read(file->part.data(), file->part.size())};
    };
    const auto inflater = std::make_shared<Inflater>(part, Inflater::Packing::kGzip, file->name);
    return [inflater](char* to, size_t count) { return inflater->read(to, count); };
  };
  const auto copy = [file]() -> Bytes {
    file->rewind();
    return [file](char* to, size_t count) { return file->read(to, count); };
  };
  const size_t size = file->size();
  if (is_gzip({file->part.data(), file->read(file->part.data(), 2)})) return {unpack, size, true};
  return {copy, size, false};
}

void IdxReader::rewind() {
  bytes_ = origin_.open();
  shape_ = read_shape(bytes_, source_);
  size_ = static_cast<size_t>(c10::multiply_integers(shape_));
  place_ = 0;
  if (origin_.packed) {
    require_size(size_ / kMostInflation <= origin_.stored, size_, "fewer", source_);
  } else {
    const size_t values = origin_.stored - 4 - 4 * shape_.size();
    require_size(values == size_, size_, values, source_);
  }
}

void IdxReader::read(char* to, size_t count) {
  CDT_REQUIRE(count <= size_ - place_, source_, ": expected to read at most ", size_ - place_,
              " values, got ", count);
  const size_t got = bytes_(to, count);
  place_ += got;
  require_size(got == count, size_, place_, source_);
  char beyond = 0;
  require_size(place_ < size_ || bytes_(&beyond, 1) == 0, size_, "more", source_);
}

void IdxReader::skip(size_t count) {
  std::vector<char> passed(std::min(count, kPart));
  for (; count > 0; count -= std::min(count, passed.size())) {
    read(passed.data(), std::min(count, passed.size()));
  }
}

torch::Tensor read_all(IdxReader& reader) {
  torch::Tensor values = torch::empty(reader.shape(), torch::kUInt8);
  reader.read(reinterpret_cast<char*>(values.data_ptr<uint8_t>()), reader.size() - reader.place());
  return values;
}

torch::Tensor parse_idx(std::string_view bytes, const std::string& source) {
  IdxReader reader(bytes, source);
  return read_all(reader);
}

torch::Tensor read_idx(const std::filesystem::path& path) {
  IdxReader reader(path);
  return read_all(reader);
}

}  // namespace cdt::image
