#include "cdt/core/io/json_fields.h"

#include "cdt/core/text/format.h"

namespace cdt {

using nlohmann::ordered_json;

void JsonWriter::words(std::vector<std::string>& values) {
  put(values.empty()       ? ordered_json(true)
      : values.size() == 1 ? ordered_json(values[0])
                           : ordered_json(values));
}

void JsonWriter::json(std::string_view name, std::string& text) {
  enter(name);
  put(parse_json(text, "the JSON of " + std::string(name)).raw());
  leave();
}

size_t JsonWriter::begin_list(size_t size) {
  put(ordered_json::array());
  places_.back()->get_ref<ordered_json::array_t&>().resize(size);
  return size;
}

void JsonWriter::scalar(double& value) { put(number_or_null(value)); }

void JsonWriter::list(std::vector<double>& values, std::optional<size_t>) {
  put(ordered_json::array());
  for (const double value : values) places_.back()->push_back(number_or_null(value));
}

void JsonWriter::refuse(const std::string& expected) const {
  throw InvalidArgument("expected " + expected + " to write");
}

void JsonReader::words(std::vector<std::string>& values) {
  const ordered_json& raw = value().raw();
  if (raw.is_boolean()) {
    values.clear();
  } else if (raw.is_array()) {
    values = value().texts();
  } else {
    if (!raw.is_string() && !raw.is_number()) value().refuse("a setting, or a list of texts");
    values = {raw.is_string() ? value().text() : raw.dump()};
  }
}

void JsonReader::json(std::string_view name, std::string& text) {
  if (const JsonValue part = value()[name]; part.exists()) text = part.raw().dump(2);
}

void JsonReader::enter(std::string_view name) {
  const JsonValue& outer = value();
  JsonValue part = outer[name];
  const bool absent = !outer.exists() || !outer.raw().contains(name);
  places_.push_back({std::move(part), {}, absent});
}

size_t JsonReader::begin_list(size_t) {
  places_.back().entries = value().list();
  return places_.back().entries.size();
}

std::vector<std::string> JsonReader::names() {
  std::vector<std::string> found;
  for (auto& [name, part] : value().members()) {
    found.push_back(name);
    places_.back().entries.push_back(part);
  }
  return found;
}

void JsonReader::list(std::vector<std::string>& values, std::optional<size_t> length) {
  values = value().texts();
  if (length && values.size() != *length) value().refuse(c10::str("a list of ", *length, " texts"));
}

void require_known(const JsonValue& json, const ordered_json& known) {
  std::string names;
  for (const auto& [name, unused] : known.items()) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [name, unused] : json.members()) {
    CDT_REQUIRE(known.contains(name), json.where(), " has no '", name, "'; it may have ", names);
  }
}

}  // namespace cdt
