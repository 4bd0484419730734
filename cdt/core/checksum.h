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
    for (const char byte : bytes) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
    }
    hash_ = hash;
  }
  /// Of everything so far, as 16 hexadecimal digits.
  std::string text() const {
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash_ >> shift & 15];
    return digits;
  }

 private:
  uint64_t hash_ = 14695981039346656037U;
};

inline std::string checksum(std::string_view bytes) {
  Checksum sum;
  sum.add(bytes);
  return sum.text();
}

}  // namespace cdt
