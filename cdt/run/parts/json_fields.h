/// Displays fields of JSON files on pages; internal to this project.
#pragma once

#include <cdt/core/io/json.h>
#include <cdt/report/text.h>

#include <string>
#include <vector>

namespace cdt::run {

/// A scalar as text; a list with commas; a dash if missing.
inline std::string shown(const JsonValue& value) {
  const nlohmann::ordered_json& raw = value.raw();
  if (raw.is_null()) return report::show("");
  if (raw.is_string()) return value.text();
  if (raw.is_boolean()) return value.flag() ? "yes" : "no";
  if (raw.is_number_float()) return report::show(value.number());
  if (!raw.is_array()) return raw.dump();
  std::string list;
  for (const JsonValue& item : value.list()) list += (list.empty() ? "" : ", ") + shown(item);
  return list;
}

/// Names and values of an object's scalars and lists; empty if the object is missing.
inline std::vector<report::NameValue> shown_fields(const JsonValue& object) {
  std::vector<report::NameValue> values;
  if (!object.exists()) return values;
  for (const auto& [name, value] : object.members()) {
    if (!value.raw().is_object()) values.push_back({name, shown(value)});
  }
  return values;
}

}  // namespace cdt::run
