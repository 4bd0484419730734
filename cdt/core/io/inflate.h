/// Packed bytes (gzip, or deflate alone), unpacked part by part: of what a file may claim or stand
/// for, no more is in memory than its reader has asked for. For the sources of the libraries that
/// link zlib.
#pragma once

#include <cdt/core/error.h>
#include <zlib.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace cdt {

/// One packed byte stands for at most so many.
inline constexpr uint64_t kMostInflation = 1032;

inline bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

class Inflater {
 public:
  enum class Packing {
    kGzip,     ///< one gzip file or several behind each other, as gzip reads them
    kDeflate,  ///< bytes of deflate, without a header
  };
  /// Gives the next packed bytes, which live until the next call; none at the end.
  using Source = std::function<std::string_view()>;

  /// Messages call the bytes `name`.
  Inflater(Source source, Packing packing, std::string name)
      : source_(std::move(source)), packing_(packing), name_(std::move(name)) {
    const int window = packing == Packing::kGzip ? 16 + MAX_WBITS : -MAX_WBITS;
    CDT_REQUIRE(inflateInit2(&stream_, window) == Z_OK, name_, ": zlib could not be started");
  }
  /// Of bytes in memory, which outlive it.
  Inflater(std::string_view packed, Packing packing, std::string name)
      : Inflater([packed]() mutable { return std::exchange(packed, {}); }, packing,
                 std::move(name)) {}
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// The next `count` bytes; returns how many came: fewer than asked for where the stream ends.
  /// @throws InvalidArgument if it is damaged, cut short, or other bytes follow it.
  size_t read(char* to, size_t count) {
    size_t got = 0;
    while (got < count && !ended_) {
      const auto room = static_cast<uInt>(std::min(count - got, kPiece));
      stream_.next_out = reinterpret_cast<Bytef*>(to + got);
      stream_.avail_out = room;
      if (stream_.avail_in == 0) feed();
      // Without input it may still have output from before.
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

  /// False at the end.
  bool feed() {
    if (waiting_.empty()) waiting_ = source_();
    const std::string_view piece = waiting_.substr(0, kPiece);
    waiting_.remove_prefix(piece.size());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));  // it reads
    stream_.avail_in = static_cast<uInt>(piece.size());
    return !piece.empty();
  }

  /// Behind a member of a gzip file: another one, zeros that fill a block, or nothing.
  void end_member() {
    ended_ = true;
    bool zeros = false;
    while (stream_.avail_in > 0 || feed()) {
      if (packing_ == Packing::kDeflate) refuse("bytes follow it");
      if (*stream_.next_in != 0) {
        if (zeros) refuse("bytes follow it");
        inflateReset(&stream_);  // which refuses what is no gzip file
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
  std::string_view waiting_;  ///< what zlib has not been given
  bool ended_ = false;
};

}  // namespace cdt
