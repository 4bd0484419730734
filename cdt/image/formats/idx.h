/// IDX files, the format of digit collections: a header with sizes, then bytes; plain or gzipped.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::image {

/// Reads an IDX file in parts from front to back; only the requested part is in memory.
///
/// @throws InvalidArgument if it is not an IDX file of bytes, its length does not match its header,
///   or it is longer than 4 GiB; for gzipped files also if they are damaged. IoError if it cannot
///   be read. Thrown by whichever function encounters the error.
class IdxReader {
 public:
  explicit IdxReader(const std::filesystem::path& path);
  /// For bytes that outlive it; messages call them `source`.
  IdxReader(std::string_view bytes, std::string source);

  const std::vector<int64_t>& shape() const { return shape_; }
  /// Number of values, one byte each.
  size_t size() const { return size_; }
  /// Index of the next value.
  size_t place() const { return place_; }

  /// Reads the next `count` values. Throws if bytes follow the last one.
  void read(char* to, size_t count);
  void skip(size_t count);
  /// Returns to the first value.
  void rewind();

 private:
  /// Reads up to `count` bytes; returns how many there were.
  using Bytes = std::function<size_t(char* to, size_t count)>;
  struct Origin {
    std::function<Bytes()> open;  ///< reads from the first byte on
    size_t stored;                ///< size in bytes
    bool packed;
  };

  IdxReader(Origin origin, std::string source);
  static Origin origin_of(std::string_view bytes, const std::string& source);
  static Origin origin_of(const std::filesystem::path& path);

  Origin origin_;
  std::string source_;
  Bytes bytes_;
  std::vector<int64_t> shape_;
  size_t size_ = 0, place_ = 0;
};

/// All values as uint8, in the shape given by the header.
/// @throws InvalidArgument, IoError as IdxReader.
torch::Tensor read_all(IdxReader& reader);
torch::Tensor parse_idx(std::string_view bytes, const std::string& source);
torch::Tensor read_idx(const std::filesystem::path& path);

}  // namespace cdt::image
