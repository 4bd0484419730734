/// A checksum of bytes that come piece by piece. It tells changed files apart, nothing more: who
/// wants to deceive it can.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cdt {

/// FNV-1a, 64 bits.
class Checksum {
 public:
  void add(std::string_view bytes) {
    uint64_t hash = hash_;
    for (const char byte : bytes) hash = next(hash, byte);
    hash_ = hash;
  }
  /// The first kSome of the bytes, at least as many, which leaves the others. Each byte waits for
  /// the one before, so that a processor has time for other work beside: whoever has some adds a
  /// few bytes at a time.
  static constexpr size_t kSome = 16;
  void add_some(std::string_view& bytes) {
    uint64_t hash = hash_;
#pragma GCC unroll 16
    for (size_t i = 0; i < kSome; ++i) hash = next(hash, bytes[i]);
    hash_ = hash;
    bytes.remove_prefix(kSome);
  }
  /// Of everything so far, as 16 hexadecimal digits.
  std::string text() const {
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash_ >> shift & 15];
    return digits;
  }

 private:
  static uint64_t next(uint64_t hash, char byte) {
    return (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  }

  uint64_t hash_ = 14695981039346656037U;
};

inline std::string checksum(std::string_view bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.text();
}

}  // namespace cdt
