#include "cdt/core/io/json.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "cdt/core/io/file.h"

namespace cdt {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLongestExcerpt = 80;

/// "line 3, column 14" for a byte offset.
std::string position(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return c10::str("line ", line, ", column ", before.size() - start + 1);
}

/// Builds a value from the events of the JSON library's parser. The library's own builder has no
/// limits, accepts repeated names, and searches all names of an object for each new one.
class Builder : public nlohmann::json_sax<ordered_json> {
 public:
  Builder(std::string_view text, const std::string& source, int deepest)
      : text_(text), source_(source), deepest_(static_cast<size_t>(deepest)) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(ordered_json::binary_t&) override { return false; }  // does not occur in text
  bool start_object(size_t) override { return open(ordered_json::object()); }
  bool start_array(size_t) override { return open(ordered_json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    CDT_REQUIRE(open_.back().names.insert(name).second, source_,
                ": expected each name once in an object, got ", excerpt(name), " twice");
    name_ = std::move(name);
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const ordered_json::exception& error) override {
    constexpr int kOutOfRange = 406;
    throw InvalidArgument(c10::str(
        source_, ": is not JSON: ", error.id == kOutOfRange ? "a number is too large" : "malformed",
        " at ", position(text_, byte == 0 ? 0 : byte - 1)));
  }

  ordered_json take() { return std::move(top_); }

 private:
  struct Open {
    ordered_json* value;
    std::set<std::string> names;  ///< names of the current object so far
  };

  bool add(ordered_json value) {
    place(std::move(value));
    return true;
  }
  bool open(ordered_json value) {
    CDT_REQUIRE(open_.size() < deepest_, source_, ": expected at most ", deepest_,
                " lists and objects within each other, but it nests deeper");
    ordered_json* placed = place(std::move(value));
    open_.push_back({placed, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  /// An open value is the last one of its parent, which does not grow until it is closed.
  ordered_json* place(ordered_json value) {
    if (open_.empty()) {
      top_ = std::move(value);
      return &top_;
    }
    ordered_json& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    auto& members = parent.get_ref<ordered_json::object_t&>();
    members.emplace_back(std::move(name_), std::move(value));
    return &members.back().second;
  }

  std::string_view text_;
  const std::string& source_;
  size_t deepest_;
  ordered_json top_;
  std::vector<Open> open_;
  std::string name_;  ///< name of the next value
};

/// The place of a member or an entry.
std::string step_from(const std::string& where, bool top, const std::string& step) {
  return c10::str(where, top ? ": " : step.starts_with('[') ? "" : ".", step);
}

/// Plain names unchanged; long or ambiguous ones as an excerpt.
std::string member_step(const std::string& name) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  const bool simple = !name.empty() && name.size() <= kLongestExcerpt &&
                      std::all_of(name.begin(), name.end(), plain);
  return simple ? name : excerpt(name);
}

std::string entry_step(size_t i) { return c10::str("[", i, "]"); }

void require_utf8(const ordered_json& value, const std::string& where, bool top) {
  if (value.is_string()) {
    try {
      static_cast<void>(value.dump());
    } catch (const ordered_json::exception&) {
      throw InvalidArgument(
          c10::str(where, ": expected UTF-8 text, got other bytes in ", excerpt(value)));
    }
  }
  for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
    require_utf8(value[i], step_from(where, top, entry_step(i)), false);
  }
  if (!value.is_object()) return;
  for (const auto& [name, member] : value.items()) {
    require_utf8(ordered_json(name), where, top);
    require_utf8(member, step_from(where, top, member_step(name)), false);
  }
}

}  // namespace

JsonValue::JsonValue(ordered_json value, std::string source)
    : JsonValue(std::make_shared<const ordered_json>(std::move(value)), std::move(source), true) {}

JsonValue JsonValue::child(const ordered_json& value, const std::string& step) const {
  return {Shared(value_, &value), step_from(where_, top_, step), false};
}

JsonValue JsonValue::operator[](std::string_view name) const {
  static const ordered_json kNone;
  if (exists() && !value_->is_object()) refuse("an object");
  const auto found = value_->find(name);
  return child(found == value_->end() ? kNone : *found, member_step(std::string(name)));
}

std::string JsonValue::text() const {
  if (!value_->is_string()) refuse("text");
  return value_->get<std::string>();
}

bool JsonValue::flag() const {
  if (!value_->is_boolean()) refuse("true or false");
  return value_->get<bool>();
}

double JsonValue::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) refuse("a finite number");
  return value_->get<double>();
}

int64_t JsonValue::whole(int64_t lowest, int64_t highest) const {
  using Limits = std::numeric_limits<int64_t>;
  const bool fits =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() || value_->get<uint64_t>() <= uint64_t{Limits::max()}) &&
      value_->get<int64_t>() >= lowest && value_->get<int64_t>() <= highest;
  if (!fits) {
    refuse(c10::str("a whole number", highest < Limits::max()
                                          ? c10::str(" from ", lowest, " to ", highest)
                                      : lowest > Limits::min() ? c10::str(", ", lowest, " or above")
                                                               : ""));
  }
  return value_->get<int64_t>();
}

uint64_t JsonValue::seed() const {
  if (!value_->is_number_unsigned()) refuse("a whole number, 0 or above");
  return value_->get<uint64_t>();
}

void JsonValue::require_list(std::optional<size_t> length, std::string_view of) const {
  if (!value_->is_array() || (length && value_->size() != *length)) {
    refuse(length ? c10::str("a list of ", *length, " ", of) : c10::str("a list of ", of));
  }
}

std::vector<JsonValue> JsonValue::list() const {
  if (!value_->is_array()) refuse("a list");
  std::vector<JsonValue> entries;
  entries.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) entries.push_back(child((*value_)[i], entry_step(i)));
  return entries;
}

std::vector<std::string> JsonValue::texts() const {
  require_list({}, "texts");
  std::vector<std::string> values;
  values.reserve(value_->size());
  for (const ordered_json& each : *value_) {
    values.push_back(each.is_string() ? each.get<std::string>()
                                      : child(each, entry_step(values.size())).text());
  }
  return values;
}

std::vector<double> JsonValue::numbers(std::optional<size_t> length) const {
  require_list(length, "numbers");
  std::vector<double> values;
  values.reserve(value_->size());
  for (const ordered_json& each : *value_) {
    const bool plain = each.is_number() && std::isfinite(each.get<double>());
    values.push_back(plain ? each.get<double>()
                           : child(each, entry_step(values.size())).number_or_nan());
  }
  return values;
}

std::vector<int64_t> JsonValue::counts(std::optional<size_t> length) const {
  require_list(length, "whole numbers");
  std::vector<int64_t> values;
  values.reserve(value_->size());
  for (const ordered_json& each : *value_) {
    values.push_back(child(each, entry_step(values.size())).count());
  }
  return values;
}

std::vector<std::pair<std::string, JsonValue>> JsonValue::members() const {
  if (!value_->is_object()) refuse("an object");
  std::vector<std::pair<std::string, JsonValue>> all;
  all.reserve(value_->size());
  for (const auto& [name, value] : value_->items()) {
    all.emplace_back(name, child(value, member_step(name)));
  }
  return all;
}

void JsonValue::refuse(std::string_view expected) const {
  throw InvalidArgument(
      c10::str(where_, ": expected ", expected,
               exists() ? c10::str(", got ", excerpt(*value_)) : std::string(", got nothing")));
}

void JsonValue::require_format(std::string_view expected) const {
  std::string came = "a file without a format";
  if (value_->is_object() && value_->contains("format")) {
    const ordered_json& format = value_->at("format");
    if (format == expected) return;
    came = excerpt(format);
    const JsonValue version = (*this)["version"];
    if (version.raw().is_string()) came += " of cdt " + version.text();
  }
  throw InvalidArgument(c10::str(where_, ": expected the format \"", expected, "\", got ", came));
}

JsonValue parse_json(std::string_view text, const std::string& source, int deepest) {
  CDT_REQUIRE(text.size() <= kLongestJson, source, ": expected JSON of at most ", kLongestJson,
              " bytes, got ", text.size());
  // The JSON library takes NUL for the end of its input.
  const size_t zero = text.find('\0');
  CDT_REQUIRE(zero == std::string_view::npos, source, ": is not JSON: a NUL byte at ",
              position(text, zero));
  Builder builder(text, source, deepest);
  ordered_json::sax_parse(text.begin(), text.end(), &builder);
  return {builder.take(), source};
}

JsonValue read_json(const std::filesystem::path& path) {
  return parse_json(read_regular_file(path, kLongestJson), path.string());
}

std::string excerpt(const ordered_json& value) {
  std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
  if (text.size() > kLongestExcerpt) text.replace(kLongestExcerpt - 3, std::string::npos, "...");
  return text;
}

std::string dump_exactly(const ordered_json& value, const std::string& source, int indent) {
  try {
    return value.dump(indent);
  } catch (const ordered_json::exception&) {
    require_utf8(value, source, true);
    throw;
  }
}

std::string dump_readably(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace);
}

}  // namespace cdt
