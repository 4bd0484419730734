#include "fuzz/mutate.h"

#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

namespace cdt::fuzz {
namespace {

using nlohmann::ordered_json;

size_t below(size_t count, Random& random) { return random() % count; }

ordered_json nested(int depth) {
  ordered_json value = ordered_json::array();
  for (int i = 0; i < depth; ++i) value = ordered_json::array({std::move(value)});
  return value;
}

/// Values at which readers stumble.
ordered_json strange_value(Random& random) {
  switch (below(20, random)) {
    case 0:
      return nullptr;
    case 1:
      return true;
    case 2:
      return false;
    case 3:
      return 0;
    case 4:
      return -1;
    case 5:
      return 1;
    case 6:
      return std::numeric_limits<int64_t>::max();
    case 7:
      return std::numeric_limits<int64_t>::min();
    case 8:
      return std::numeric_limits<uint64_t>::max();
    case 9:
      return 1e308;
    case 10:
      return -0.5;
    case 11:
      return 1e-320;
    case 12:
      return "";
    case 13:
      return "../../x";
    case 14:
      return "\x1b[31m";
    case 15:
      return std::string(300, 'a');
    case 16:
      return ordered_json::array();
    case 17:
      return ordered_json::object();
    case 18:
      return nested(80);
    default:
      return std::to_string(static_cast<int>(random()));
  }
}

void list_nodes(ordered_json& value, std::vector<ordered_json*>& nodes) {
  nodes.push_back(&value);
  if (!value.is_structured()) return;
  for (auto& item : value) list_nodes(item, nodes);
}

void mutate_json(ordered_json& root, Random& random, const ByteMutation& bytes);

/// A text, or the JSON inside it.
void mutate_text(ordered_json& node, Random& random, const ByteMutation& bytes) {
  const std::string text = node.get<std::string>();
  ordered_json inside = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (inside.is_structured() && below(8, random) > 0) {
    mutate_json(inside, random, bytes);
    node = inside.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  } else {
    node = bytes(text);
  }
}

void mutate_json(ordered_json& root, Random& random, const ByteMutation& bytes) {
  std::vector<ordered_json*> nodes;
  list_nodes(root, nodes);
  ordered_json& node = *nodes[below(nodes.size(), random)];
  const ordered_json other = *nodes[below(nodes.size(), random)];
  switch (below(6, random)) {
    case 0:
      node = strange_value(random);
      return;
    case 1:
      node = other;
      return;
    case 2:
      if (node.is_array()) node.push_back(other);
      if (node.is_object()) node["x" + std::to_string(random() % 3)] = other;
      return;
    case 3:
      if (node.is_structured() && !node.empty()) {
        node.erase(
            std::next(node.begin(), static_cast<std::ptrdiff_t>(below(node.size(), random))));
      }
      return;
    case 4:
      if (node.is_array() && !node.empty()) node = ordered_json::array({other});
      return;
    default:
      if (node.is_string()) return mutate_text(node, random, bytes);
      if (node.is_number()) node = node.get<double>() * 2 - 1;
  }
}

/// Whether it nests so deep that looking at it, which goes by recursion here, needs much stack.
bool is_deep(std::string_view text) {
  constexpr int kDeep = 500;
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeep) return true;
  }
  return false;
}

std::string mutate_json_text(std::string_view text, Random& random, const ByteMutation& bytes) {
  if (is_deep(text)) return bytes(text);
  ordered_json root = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return bytes(text);
  mutate_json(root, random, bytes);
  return root.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

/// The header's JSON, with its length corrected, or the data behind it.
std::string mutate_safetensors(std::string_view file, Random& random, const ByteMutation& bytes) {
  uint64_t length = 0;
  if (file.size() < sizeof length) return bytes(file);
  std::memcpy(&length, file.data(), sizeof length);
  if (length > file.size() - sizeof length) return bytes(file);
  std::string header(file.substr(sizeof length, length));
  std::string data(file.substr(sizeof length + length));
  if (below(6, random) == 0) {
    data = bytes(data);
  } else {
    header = mutate_json_text(header, random, bytes);
  }
  length = header.size();
  std::string changed(sizeof length, '\0');
  std::memcpy(changed.data(), &length, sizeof length);
  return changed + header + data;
}

/// By lines: keys and values, tables.
std::string mutate_toml(std::string_view text, Random& random, const ByteMutation& bytes) {
  constexpr std::array kValues{"-1",         "0",           "1e999", "nan",
                               "inf",        "\"\"",        "true",  "[]",
                               "{}",         "\"../../x\"", "[[]]",  "9223372036854775807",
                               "[1, \"a\"]", "1979-05-27"};
  std::vector<std::string> lines;
  for (size_t first = 0; first <= text.size();) {
    const size_t last = std::min(text.find('\n', first), text.size());
    lines.emplace_back(text.substr(first, last - first));
    first = last + 1;
  }
  const size_t at = below(lines.size(), random);
  switch (below(4, random)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at),
                   lines[below(lines.size(), random)]);
      break;
    case 2:
      lines[at] = bytes(lines[at]);
      break;
    default: {
      const size_t equals = lines[at].find('=');
      if (equals != std::string::npos) {
        lines[at] = lines[at].substr(0, equals + 1) + " " + kValues[below(kValues.size(), random)];
      }
    }
  }
  std::string changed;
  for (const std::string& line : lines) changed += line + "\n";
  return changed;
}

}  // namespace

std::string mutate(std::string_view text, Shape shape, Random& random, const ByteMutation& bytes) {
  if (below(10, random) == 0) return bytes(text);
  switch (shape) {
    case Shape::kJson:
      return mutate_json_text(text, random, bytes);
    case Shape::kToml:
      return mutate_toml(text, random, bytes);
    case Shape::kSafetensors:
      return mutate_safetensors(text, random, bytes);
    case Shape::kBytes:
      break;
  }
  return bytes(text);
}

}  // namespace cdt::fuzz
