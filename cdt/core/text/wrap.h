/// Wraps lines to the width of a terminal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>

namespace cdt {

inline constexpr size_t kColumns = 80;

/// Characters, not bytes.
inline size_t printed_width(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Wraps lines at 80 columns, between words. Continuation lines begin with `indent` blanks.
inline std::string wrap(const std::string& text, size_t indent) {
  std::string wrapped;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    while (printed_width(line) > kColumns) {
      // The last blank within the columns, except those of the indentation.
      size_t cut = std::string::npos;
      const size_t begin = std::max(line.find_first_not_of(' '), indent);
      for (size_t i = 0, columns = 0; i < line.size() && columns <= kColumns; ++i) {
        if ((static_cast<unsigned char>(line[i]) & 0xC0) != 0x80) ++columns;
        if (line[i] == ' ' && i > begin) cut = i;
      }
      if (cut == std::string::npos) break;  // a longer word
      wrapped += line.substr(0, line.find_last_not_of(' ', cut) + 1) + "\n";
      line = std::string(indent, ' ') + line.substr(cut + 1);
    }
    wrapped += line;
    if (end < text.size()) wrapped += '\n';
    start = end + 1;
  }
  return wrapped;
}

}  // namespace cdt
