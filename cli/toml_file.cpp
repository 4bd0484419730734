#include "cli/toml_file.h"

#include <cdt/core/io/file.h>

#ifdef CDT_TOML
// Without NDEBUG the parser asserts on some invalid texts before it reports them itself.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#endif

namespace cdt::cli {
namespace {

constexpr size_t kLongest = 1'000'000;

}  // namespace

#ifdef CDT_TOML
namespace {

using nlohmann::ordered_json;

constexpr size_t kDeepest = 16;  // stated in a message below

bool is_beyond_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }

/// Position behind the string that begins at `start`: behind its last quote, or at the end of the
/// line or text if it is not closed, which the parser rejects. Stops early at a non-ASCII letter
/// that follows a backslash, also one at the end of the previous line.
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
      // One or two quotes before the closing ones of a multi-line string belong to the string.
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

/// Checks what the parser does not. It limits the nesting of lists, but not the parts of a key,
/// each of which is a table, and it frees its result by recursion. Between values, and where it
/// skips blanks after a backslash, its behaviour for non-ASCII letters is undefined; TOML does not
/// allow them there, except as the first letter of a line after one that ends in a backslash.
/// Quotes and brackets directly after a number are part of the number for the parser, so they are
/// rejected: the text between them would not be checked here. Dates are rejected as well, since the
/// parser looks for a time after them, through whatever follows.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  void require_parsable() {
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    begin_ = at_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"' || c == '\'') {
        require(is_apart() || (!value_ && text_[at_ - 1] == '.'),
                "a blank or a separator before quotes");
        at_ = end_of_string(text_, at_);
      } else {
        take(c);
        ++at_;
      }
    }
  }

 private:
  void require(bool fine, const char* expected) const {
    if (fine) return;
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n') + 1;
    throw InvalidArgument(c10::str(source_, ", line ", line, ": expected ", expected));
  }

  /// Whether a value may begin here: it is separated from what precedes it.
  bool is_apart() const {
    return at_ == begin_ ||
           std::string_view(" \t\r\n=[{,").find(text_[at_ - 1]) != std::string_view::npos;
  }

  void take(char c) {
    require(!is_beyond_ascii(c),
            "letters beyond ASCII in quotes and comments only, not after a backslash");
    if (std::string_view("[]{},=\n").find(c) != std::string_view::npos) parts_ = 1;
    switch (c) {
      case '.':
        ++parts_;
        break;
      case '-':
        require(!value_ || is_apart() || text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E',
                "text, a number, true or false, a list or a table, got what looks like a date");
        break;
      case '=':
        require(!value_, "one = to a value");
        value_ = true;
        break;
      case '[':
      case '{':
        require(is_apart(), "a blank or a separator before a bracket");
        open_ += c;
        if (c == '{') value_ = false;
        break;
      case ']':
      case '}':
        if (!open_.empty()) open_.pop_back();
        value_ = value_ || c == '}';
        break;
      case ',':
        if (open_.ends_with('{')) value_ = false;
        break;
      case '\n':
        if (open_.empty()) value_ = false;
        break;
      default:
        break;
    }
    require(open_.size() <= kDeepest && parts_ <= kDeepest,
            "at most 16 lists and tables within each other, and parts of a key");
  }

  std::string_view text_;
  const std::string& source_;
  size_t begin_ = 0;
  size_t at_ = 0;
  std::string open_;    ///< open brackets
  bool value_ = false;  ///< after the = of a key
  size_t parts_ = 1;    ///< parts of a key
};

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
              ": expected text, a number, true or false, a list or a table, got a date or a "
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
              " bytes, got ", text.size());
  Scanner(text, source).require_parsable();
  try {
    return {to_json(toml::parse(text, source), source, ""), source};
  } catch (const toml::parse_error& error) {
    throw InvalidArgument(c10::str(source, ", line ", error.source().begin.line, ": ",
                                   std::string(error.description())));
  }
}

JsonValue parse_built_in(std::string_view text, const std::string& source) {
  return parse_toml(text, source);
}

#else

JsonValue parse_toml(std::string_view, const std::string& source) {
  throw InvalidArgument(
      c10::str(source,
               ": this program was built without toml++ and cannot read TOML; install Debian's "
               "libtomlplusplus-dev (or toml++ from elsewhere) and build it again"));
}

JsonValue parse_built_in(std::string_view text, const std::string& source) {
  return parse_json(text, source);
}

#endif

JsonValue read_toml(const std::filesystem::path& path) {
  return parse_toml(read_file(path, kLongest), path.string());
}

}  // namespace cdt::cli
