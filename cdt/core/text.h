/// Text from files as a terminal may see it, and whether it is UTF-8.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cdt {

/// The length of the UTF-8 character that `bytes` begin with; 0 if it is none.
inline size_t utf8_length(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(bytes[k]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80             ? 1
                        : (lead & 0xe0) == 0xc0 ? 2
                        : (lead & 0xf0) == 0xe0 ? 3
                        : (lead & 0xf8) == 0xf0 ? 4
                                                : 0;
  if (length == 0 || length > bytes.size()) return 0;
  uint32_t point = length == 1 ? lead : lead & (0xffu >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(k) & 0x3f);
  }
  // Neither longer than needed, nor half of a UTF-16 pair, nor beyond Unicode.
  constexpr std::array<uint32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool half = point >= 0xd800 && point < 0xe000;
  return point < kSmallest[length] || half || point > 0x10ffff ? 0 : length;
}

/// Whether the bytes are valid UTF-8: names and categories go into JSON files.
inline bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t length = utf8_length(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

/// The text without anything that steers a terminal: control characters (of one byte, and U+0080 to
/// U+009F, which some take for escape sequences) and bytes that are no UTF-8 come as \xNN. Line
/// ends stay.
inline std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    const bool control =
        length == 1 ? (lead < 0x20 && lead != '\n') || lead == 0x7f
                    : length == 2 && lead == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || control) {
      const auto byte = static_cast<unsigned char>(text[length == 2 ? 1 : 0]);
      shown += {'\\', 'x', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

/// The same of a name, which stands in a line: line ends come as \x0a.
inline std::string printable_name(std::string_view name) {
  std::string shown;
  for (const char c : printable(name))
    shown += c == '\n' ? std::string("\\x0a") : std::string(1, c);
  return shown;
}

}  // namespace cdt
