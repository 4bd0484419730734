/// Fields of JSON files that may be absent, and how pages show them; for the sources of this
/// project alone.
#pragma once

#include <cdt/core/error.h>
#include <cdt/report/text.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cdt::run {

/// @throws InvalidArgument, naming `source`, if the text is not JSON.
inline nlohmann::ordered_json parse_json(const std::string& text, const std::string& source) {
  try {
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(c10::str(source, ": is not JSON: ", error.what()));
  }
}

/// A field, or null if it is absent.
inline nlohmann::ordered_json field(const nlohmann::ordered_json& object, const char* name) {
  return object.is_object() && object.contains(name) ? object.at(name) : nlohmann::ordered_json();
}

inline std::string text_of(const nlohmann::ordered_json& object, const char* name) {
  const auto value = field(object, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

/// The number in a field; NaN if it is absent, null or something else.
inline double number_of(const nlohmann::ordered_json& object, const char* name) {
  const auto value = field(object, name);
  return value.is_number() ? value.get<double>() : std::nan("");
}

inline std::optional<int64_t> count_in(const nlohmann::ordered_json& object, const char* name) {
  const auto value = field(object, name);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

/// A scalar as text; a list with commas; a dash for what is not there.
inline std::string shown(const nlohmann::ordered_json& value) {
  if (value.is_null()) return report::show("");
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return report::show(value.get<double>());
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& item : value) list += (list.empty() ? "" : ", ") + shown(item);
  return list;
}

/// Name and value of an object's scalars and lists.
inline std::vector<report::NameValue> shown_fields(const nlohmann::ordered_json& object) {
  std::vector<report::NameValue> values;
  if (!object.is_object()) return values;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_object()) values.push_back({name, shown(value)});
  }
  return values;
}

/// @throws InvalidArgument, saying which format came and which was expected.
inline void require_format(const nlohmann::ordered_json& content, const std::string& expected,
                           const std::string& source) {
  const bool named = content.is_object() && content.contains("format");
  CDT_REQUIRE(
      named && content.at("format") == expected, source, ": expected the format \"", expected,
      "\", but came ", named ? content.at("format").dump() : "a file without a format",
      named && text_of(content, "version") != "" ? " of cdt " + text_of(content, "version") : "");
}

}  // namespace cdt::run
