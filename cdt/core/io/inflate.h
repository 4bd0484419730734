/// Streaming decompression (gzip, or raw deflate): only the bytes requested by the reader are in
/// memory, whatever size a file claims. For libraries of this project that link zlib.
#pragma once

#include <cdt/core/error.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace cdt {

/// Maximum number of bytes that one compressed byte can expand to.
inline constexpr uint64_t kMostInflation = 1032;

inline bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

class Inflater {
 public:
  enum class Packing {
    kGzip,     ///< one gzip file or several concatenated, as gzip reads them
    kDeflate,  ///< deflate data without a header
  };
  /// Returns the next compressed bytes, valid until the next call; empty at the end.
  using Source = std::function<std::string_view()>;

  /// Messages call the data `name`.
  Inflater(Source source, Packing packing, std::string name)
      : source_(std::move(source)), packing_(packing), name_(std::move(name)) {
    const int window = packing == Packing::kGzip ? 16 + MAX_WBITS : -MAX_WBITS;
    CDT_REQUIRE(inflateInit2(&stream_, window) == Z_OK, name_, ": zlib could not be started");
  }
  /// For data in memory, which must outlive it.
  Inflater(std::string_view packed, Packing packing, std::string name)
      : Inflater([packed]() mutable { return std::exchange(packed, {}); }, packing,
                 std::move(name)) {}
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Reads the next `count` bytes. Returns how many were read, fewer only at the end of the stream.
  /// @throws InvalidArgument if the data is damaged, truncated, or followed by other bytes.
  size_t read(char* to, size_t count) {
    size_t got = 0;
    while (got < count && !ended_) {
      const auto room = static_cast<uInt>(std::min(count - got, kPiece));
      stream_.next_out = reinterpret_cast<Bytef*>(to + got);
      stream_.avail_out = room;
      if (stream_.avail_in == 0) feed();
      // There may be output left even without input.
      const int status = inflate(&stream_, Z_NO_FLUSH);
      got += room - stream_.avail_out;
      if (status == Z_STREAM_END) {
        end_member();
      } else if (status != Z_OK) {
        refuse("it is damaged or cut short");
      }
    }
    return got;
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 30;  ///< zlib counts in 32 bits

  /// Returns false at the end.
  bool feed() {
    if (waiting_.empty()) waiting_ = source_();
    const std::string_view piece = waiting_.substr(0, kPiece);
    waiting_.remove_prefix(piece.size());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));  // only read
    stream_.avail_in = static_cast<uInt>(piece.size());
    return !piece.empty();
  }

  /// After a member of a gzip file: another one, padding zeros, or the end.
  void end_member() {
    ended_ = true;
    bool zeros = false;
    while (stream_.avail_in > 0 || feed()) {
      if (packing_ == Packing::kDeflate) refuse("bytes follow it");
      if (*stream_.next_in != 0) {
        if (zeros) refuse("bytes follow it");
        inflateReset(&stream_);  // then rejects data that is not gzip
        ended_ = false;
        return;
      }
      zeros = true;
      ++stream_.next_in;
      --stream_.avail_in;
    }
  }

  [[noreturn]] void refuse(std::string_view why) const {
    throw InvalidArgument(c10::str(
        name_, ": expected ",
        packing_ == Packing::kGzip ? "a whole gzip file" : "whole deflated bytes", ", but ", why));
  }

  Source source_;
  Packing packing_;
  std::string name_;
  z_stream stream_{};
  std::string_view waiting_;  ///< input not yet passed to zlib
  bool ended_ = false;
};

}  // namespace cdt
