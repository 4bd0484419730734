#include "cli/toml_file.h"

#include <cdt/core/file.h>
#include <toml++/toml.h>

#include <algorithm>

namespace cdt::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLongest = 1'000'000;
constexpr int kDeepest = 16;

bool is_beyond_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }

/// Where the string that begins at `start` ends: behind its last quote, or at the end of the line
/// or the text if it is not closed, which the parser refuses. Or already at a letter beyond ASCII
/// that follows a backslash, be it that of the line before.
size_t end_of_string(std::string_view text, size_t start) {
  const char quote = text[start];
  const bool lines = text.substr(start, 3) == std::string(3, quote);
  const std::string_view closing = text.substr(start, lines ? 3 : 1);
  size_t i = start + closing.size();
  while (i < text.size()) {
    if (quote == '"' && text[i] == '\\') {
      const size_t escaped = i + 1;
      const size_t letter = lines ? text.find_first_not_of(" \t\r\n", escaped) : escaped;
      if (letter >= text.size()) break;
      if (is_beyond_ascii(text[letter])) return letter;
      i = letter == escaped ? escaped + 1 : letter;
    } else if (text.substr(i, closing.size()) == closing) {
      // One or two quotes before those that close a string of several lines are part of it.
      const size_t behind = std::min(text.find_first_not_of(quote, i), text.size());
      return lines ? std::min(behind, i + 5) : i + 1;
    } else if (!lines && text[i] == '\n') {
      return i;
    } else {
      ++i;
    }
  }
  return text.size();
}

/// The parser bounds lists, but not the parts of a key, each of which is a table; and what it
/// builds is taken down again by recursion. Between values, and where it skips blanks behind a
/// backslash, it has no defined behaviour for letters beyond ASCII; TOML does not allow them there,
/// but for the first one of a line whose predecessor ends in a backslash.
void require_parsable(std::string_view text, const std::string& source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  int depth = 0;
  int parts = 1;
  for (size_t i = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '"' || c == '\'') {
      i = end_of_string(text, i);
      continue;
    }
    if (c == '.') ++parts;
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (std::string_view("[]{},=\n").find(c) != std::string_view::npos) parts = 1;
    const auto place = [&] {
      return c10::str(
          source, ", line ",
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n') + 1, ": ");
    };
    CDT_REQUIRE(depth <= kDeepest && parts <= kDeepest, place(), "expected at most ", kDeepest,
                " lists and tables within each other, and parts of a key");
    CDT_REQUIRE(!is_beyond_ascii(c), place(),
                "expected letters beyond ASCII in quotes and comments only, not after a backslash");
    ++i;
  }
}

ordered_json to_json(const toml::node& node, const std::string& source, const std::string& key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* array = node.as_array()) {
    ordered_json list = ordered_json::array();
    for (const toml::node& item : *array) list.push_back(to_json(item, source, key));
    return list;
  }
  const auto* table = node.as_table();
  CDT_REQUIRE(table != nullptr, source, ": ", key,
              ": expected text, a number, true or false, a list or a table, but came a date or a "
              "time");
  ordered_json object = ordered_json::object();
  auto& members = object.get_ref<ordered_json::object_t&>();
  for (const auto& [name, value] : *table) {
    const std::string text(name.str());
    members.emplace_back(text, to_json(value, source, key.empty() ? text : key + "." + text));
  }
  return object;
}

}  // namespace

JsonValue parse_toml(std::string_view text, const std::string& source) {
  CDT_REQUIRE(text.size() <= kLongest, source, ": expected TOML of at most ", kLongest,
              " bytes, but came ", text.size());
  require_parsable(text, source);
  try {
    return {to_json(toml::parse(text, source), source, ""), source};
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(c10::str(source, ", line ", error.source().begin.line, ": ",
                                   std::string(error.description())));
  }
}

JsonValue read_toml(const std::filesystem::path& path) {
  return parse_toml(read_file(path, kLongest), path.string());
}

}  // namespace cdt::cli
