/// An incremental checksum. It detects changed files; it does not protect against deliberate
/// changes.
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
  /// Adds the first kSome bytes, of at least as many, and removes them. Each byte depends on the
  /// one before, so the processor can do other work meanwhile; callers that have some add a few
  /// bytes at a time.
  static constexpr size_t kSome = 16;
  void add_some(std::string_view& bytes) {
    uint64_t hash = hash_;
#pragma GCC unroll 16
    for (size_t i = 0; i < kSome; ++i) hash = next(hash, bytes[i]);
    hash_ = hash;
    bytes.remove_prefix(kSome);
  }
  /// The checksum so far, as 16 hexadecimal digits.
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
