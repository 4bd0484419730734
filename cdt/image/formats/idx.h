/// IDX files, in which collections of digits come: a header with sizes, then bytes; plain or
/// gzipped.
#pragma once

#include <cdt/core/error.h>
#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::image {

/// Reads an IDX file part by part, from front to back: in memory is what was asked for, whatever
/// the file stands for.
///
/// @throws InvalidArgument if it is no IDX file of bytes, says more than it holds or holds more
///   than it says, or is longer than 4 GiB; of gzipped ones also if they are damaged. IoError if it
///   cannot be read. Each function as soon as it comes upon it.
class IdxReader {
 public:
  explicit IdxReader(const std::filesystem::path& path);
  /// Of bytes that outlive it; messages call them `source`.
  IdxReader(std::string_view bytes, std::string source);

  const std::vector<int64_t>& shape() const { return shape_; }
  /// Of all values: a byte each.
  size_t size() const { return size_; }
  /// Of the value that comes next.
  size_t place() const { return place_; }

  /// The next `count` values. Behind the last one nothing may follow.
  void read(char* to, size_t count);
  void skip(size_t count);
  /// To the first value.
  void rewind();

 private:
  /// As many bytes as there are, of those asked for.
  using Bytes = std::function<size_t(char* to, size_t count)>;
  struct Origin {
    std::function<Bytes()> open;  ///< from the first byte on
    size_t stored;                ///< bytes
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

/// All values as uint8, of the shape that the header says.
/// @throws InvalidArgument, IoError as IdxReader.
torch::Tensor read_all(IdxReader& reader);
torch::Tensor parse_idx(std::string_view bytes, const std::string& source);
torch::Tensor read_idx(const std::filesystem::path& path);

}  // namespace cdt::image
