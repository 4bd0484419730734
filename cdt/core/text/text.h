/// UTF-8 validation, and safe display of text from files.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cdt {

/// Length of the UTF-8 character at the beginning of `bytes`; 0 if invalid.
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
  // Rejects overlong forms, surrogates, and code points beyond Unicode.
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

/// Code point of a valid character.
inline uint32_t code_point(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return lead;
  uint32_t point = lead & (0xffu >> (character.size() + 1));
  for (const char c : character.substr(1))
    point = point << 6 | (static_cast<unsigned char>(c) & 63);
  return point;
}

/// Whether a character is invisible, or affects those around it: Unicode's format characters
/// (directions, joiners, tags), line and paragraph separators, and blank letters. A name that
/// contains one is not what it looks like.
inline bool is_hidden(uint32_t point) {
  struct Range {
    uint32_t first, last;
  };
  constexpr std::array<Range, 18> kHidden{{
      {0xad, 0xad},
      {0x34f, 0x34f},
      {0x61c, 0x61c},
      {0x115f, 0x1160},
      {0x17b4, 0x17b5},
      {0x180b, 0x180f},
      {0x200b, 0x200f},
      {0x2028, 0x202e},
      {0x2060, 0x206f},
      {0x2800, 0x2800},
      {0x3164, 0x3164},
      {0xfeff, 0xfeff},
      {0xffa0, 0xffa0},
      {0xfff0, 0xfffb},
      {0x13430, 0x1343f},
      {0x1bca0, 0x1bca3},
      {0x1d173, 0x1d17a},
      {0xe0000, 0xe0fff},
  }};
  for (const Range& range : kHidden) {
    if (point >= range.first && point <= range.last) return true;
  }
  return false;
}

/// As in JSON: \u202e, a surrogate pair beyond U+FFFF.
inline std::string escaped_point(uint32_t point) {
  std::string text;
  const auto add = [&](uint32_t unit) {
    text += "\\u";
    for (const int shift : {12, 8, 4, 0}) text += "0123456789abcdef"[unit >> shift & 15];
  };
  if (point > 0xffff) {
    add(0xd800 + ((point - 0x10000) >> 10));
    add(0xdc00 + ((point - 0x10000) & 0x3ff));
  } else {
    add(point);
  }
  return text;
}

/// The text with hidden characters escaped.
inline std::string without_hidden(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t length = std::max<size_t>(1, utf8_length(text));
    const std::string_view one = text.substr(0, length);
    const bool hidden = length > 1 && is_hidden(code_point(one));
    shown += hidden ? escaped_point(code_point(one)) : std::string(one);
    text.remove_prefix(length);
  }
  return shown;
}

/// The text without anything that controls a terminal. Control characters (single bytes, and U+0080
/// to U+009F, which some terminals interpret) and bytes that are not UTF-8 become \xNN; hidden
/// characters and those that change the writing direction become \uNNNN. Line ends remain.
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
    } else if (length > 1 && is_hidden(code_point(text.substr(0, length)))) {
      shown += escaped_point(code_point(text.substr(0, length)));
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

/// The same for a name within a line: line ends become \x0a.
inline std::string printable_name(std::string_view name) {
  std::string shown;
  for (const char c : printable(name))
    shown += c == '\n' ? std::string("\\x0a") : std::string(1, c);
  return shown;
}

}  // namespace cdt
