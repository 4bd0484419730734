/// Values of JSON files as the cells and sentences of a page.
#pragma once

#include <cdt/core/error.h>
#include <cdt/report/page.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace cdt::report {

inline std::string show(double value) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  const double size = std::abs(value);
  return size >= 1e4 && size < 1e7 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

/// A scalar as text; a list with commas; a dash for what is not there.
inline std::string show(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "–";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return show(value.get<double>());
  if (!value.is_array()) return value.dump();
  std::string list;
  for (const auto& item : value) list += (list.empty() ? "" : ", ") + show(item);
  return list;
}

/// The same for a field that may be absent.
inline std::string show(const nlohmann::ordered_json& object, const char* name) {
  return object.is_object() && object.contains(name) ? show(object.at(name)) : "–";
}

/// A field, or null if it is absent.
inline nlohmann::ordered_json field(const nlohmann::ordered_json& object, const char* name) {
  return object.is_object() && object.contains(name) ? object.at(name) : nlohmann::ordered_json();
}

inline std::string text_of(const nlohmann::ordered_json& object, const char* name,
                           const std::string& otherwise = "") {
  const auto value = field(object, name);
  return value.is_string() ? value.get<std::string>() : otherwise;
}

/// The number in a field; NaN if it is absent, null or something else.
inline double number_of(const nlohmann::ordered_json& object, const char* name) {
  const auto value = field(object, name);
  return value.is_number() ? value.get<double>() : std::nan("");
}

/// Name and value of an object's scalars, one row each; underscores become blanks.
inline Table name_value_table(const nlohmann::ordered_json& object, std::string title) {
  Table table{std::move(title), {"", ""}, {}, ""};
  if (!object.is_object()) return table;
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) continue;
    std::string words = name;
    for (char& c : words) c = c == '_' ? ' ' : c;
    table.rows.push_back({words, show(value)});
  }
  return table;
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

}  // namespace cdt::report
