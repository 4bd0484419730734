/// Converts structs with fields (core/fields.h) to JSON and back. Internal to this project.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/core/io/json.h>

#include <utility>

namespace cdt {

/// Writes a value.
class JsonWriter : public Fields {
 public:
  explicit JsonWriter(nlohmann::ordered_json& into) : places_{&into} {}

  bool reads() const override { return false; }
  void format(std::string_view name) override { (*places_.back())["format"] = name; }
  void whole(int64_t& value, int64_t, int64_t) override { put(value); }
  void words(std::vector<std::string>& values) override;
  void json(std::string_view name, std::string& text) override;
  bool has(std::string_view, bool told) const override { return told; }
  void require(bool, std::string_view, const std::string&) const override {}

 protected:
  void enter(std::string_view name) override {
    places_.push_back(&(*places_.back())[std::string(name)]);
  }
  void enter(size_t entry) override { places_.push_back(&(*places_.back())[entry]); }
  void leave() override { places_.pop_back(); }
  void begin_object() override { put(nlohmann::ordered_json::object()); }
  size_t begin_list(size_t size) override;
  bool is_missing(bool) const override { return false; }
  std::vector<std::string> names() override { return {}; }
  void scalar(bool& value) override { put(value); }
  void scalar(double& value) override;
  void scalar(uint64_t& value) override { put(value); }
  void scalar(std::string& value) override { put(value); }
  void finite(double& value) override { scalar(value); }
  void list(std::vector<double>& values, std::optional<size_t>) override;
  void list(std::vector<int64_t>& values, std::optional<size_t>) override { put(values); }
  void list(std::vector<std::string>& values, std::optional<size_t>) override { put(values); }
  [[noreturn]] void refuse(const std::string& expected) const override;
  std::string where() const override { return "what is written"; }

 private:
  void put(nlohmann::ordered_json value) { *places_.back() = std::move(value); }

  std::vector<nlohmann::ordered_json*> places_;  ///< the innermost last
};

/// Reads fields from a value, within its bounds; messages have the place.
class JsonReader : public Fields {
 public:
  explicit JsonReader(const JsonValue& from) { places_.push_back({from, {}, false}); }

  bool reads() const override { return true; }
  void format(std::string_view name) override { value().require_format(name); }
  void whole(int64_t& value, int64_t lowest, int64_t highest) override {
    value = this->value().whole(lowest, highest);
  }
  void words(std::vector<std::string>& values) override;
  void json(std::string_view name, std::string& text) override;
  bool has(std::string_view name, bool) const override { return value()[name].exists(); }
  void require(bool holds, std::string_view name, const std::string& expected) const override {
    if (!holds) value()[name].refuse(expected);
  }

 protected:
  void enter(std::string_view name) override;
  void enter(size_t entry) override {
    places_.push_back({places_.back().entries[entry], {}, false});
  }
  void leave() override { places_.pop_back(); }
  void begin_object() override {}  // members fail if it is not an object
  size_t begin_list(size_t size) override;
  bool is_missing(bool null_counts) const override {
    return places_.back().absent || (!null_counts && !value().exists());
  }
  std::vector<std::string> names() override;
  void scalar(bool& value) override { value = this->value().flag(); }
  void scalar(double& value) override { value = this->value().number_or_nan(); }
  void scalar(uint64_t& value) override { value = this->value().seed(); }
  void scalar(std::string& value) override { value = this->value().text(); }
  void finite(double& value) override { value = this->value().number(); }
  void list(std::vector<double>& values, std::optional<size_t> length) override {
    values = value().numbers(length);
  }
  void list(std::vector<int64_t>& values, std::optional<size_t> length) override {
    values = value().counts(length);
  }
  void list(std::vector<std::string>& values, std::optional<size_t> length) override;
  [[noreturn]] void refuse(const std::string& expected) const override { value().refuse(expected); }
  std::string where() const override { return value().where(); }

 private:
  struct Place {
    JsonValue value;
    std::vector<JsonValue> entries;  ///< entries of the current list or object
    bool absent;                     ///< missing, not null
  };
  const JsonValue& value() const { return places_.back().value; }

  std::vector<Place> places_;  ///< the innermost last
};

/// `fields` is not const, but a writer does not change the struct.
template <class T>
nlohmann::ordered_json to_json_value(const T& value) {
  nlohmann::ordered_json json;
  JsonWriter writer(json);
  writer.here(const_cast<T&>(value));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  return json;
}

template <class T>
T from_json_value(const JsonValue& json) {
  T value;
  JsonReader(json).here(value);
  return value;
}

/// @throws InvalidArgument if it has a member that `known` lacks.
void require_known(const JsonValue& json, const nlohmann::ordered_json& known);

/// Reads an object that may have only members that would be written: otherwise a misspelt name
/// would silently mean the default.
template <class T>
T from_json_exactly(const JsonValue& json) {
  T value = from_json_value<T>(json);
  require_known(json, to_json_value(value));
  return value;
}

}  // namespace cdt
