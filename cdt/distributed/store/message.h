/// Messages between a rank and the store: a list of byte strings, preceded by its length; internal
/// to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::distributed {

/// The socket addresses of a thousand ranks are much shorter.
inline constexpr size_t kLongestMessage = size_t{1} << 24;
inline constexpr std::string_view kWelcome = "cdt-store-1", kYes = "1", kNo = "0";

inline void put_length(std::string& to, size_t length) {
  for (const int shift : {0, 8, 16, 24}) to += static_cast<char>(length >> shift & 255);
}

/// The length in the first four bytes.
inline size_t get_length(std::string_view bytes) {
  size_t length = 0;
  for (size_t k = 0; k < 4; ++k) {
    length |= static_cast<size_t>(static_cast<unsigned char>(bytes[k])) << 8 * k;
  }
  return length;
}

inline std::string message_of(const std::vector<std::string>& parts) {
  std::string body;
  for (const std::string& part : parts) {
    put_length(body, part.size());
    body += part;
  }
  std::string whole;
  put_length(whole, body.size());
  return whole + body;
}

/// Removes the first complete message from the bytes received; none if it is incomplete. A message
/// longer than `longest`, or malformed, has no parts.
inline std::optional<std::vector<std::string>> take_message(std::string& bytes, size_t longest) {
  using Parts = std::vector<std::string>;
  if (bytes.size() < 4) return std::nullopt;
  const size_t length = get_length(bytes);
  if (length > longest) return Parts{};
  if (bytes.size() < 4 + length) return std::nullopt;
  Parts parts;
  std::string_view rest = std::string_view(bytes).substr(4, length);
  while (!rest.empty()) {
    if (rest.size() < 4 || rest.size() - 4 < get_length(rest)) {
      parts.clear();
      break;
    }
    const size_t own = get_length(rest);
    parts.emplace_back(rest.substr(4, own));
    rest.remove_prefix(4 + own);
  }
  bytes.erase(0, 4 + length);
  return parts;
}

}  // namespace cdt::distributed
