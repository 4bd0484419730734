/// JSON files: bounded reading, with the place of each value for messages; writing as UTF-8.
/// Internal to this project.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cdt {

/// A value of a JSON text and its place. An unexpected value raises InvalidArgument with the place:
/// `run.json: result.steps: expected a whole number, got "x"`. Null means missing.
class JsonValue {
 public:
  /// A whole text. `source` is its file name or a description, for messages.
  JsonValue(nlohmann::ordered_json value, std::string source);

  /// A member of an object by name; null if the member or the object is missing.
  JsonValue operator[](std::string_view name) const;
  bool exists() const { return !value_->is_null(); }

  std::string text() const;
  bool flag() const;
  /// Must be finite.
  double number() const;
  int64_t whole(int64_t lowest = std::numeric_limits<int64_t>::min(),
                int64_t highest = std::numeric_limits<int64_t>::max()) const;
  /// An integer, zero or above.
  int64_t count() const { return whole(0); }
  uint64_t seed() const;
  /// An enumerator, or whatever `parse` returns for a string.
  template <class Parse>
  auto name(Parse parse) const {
    const std::string spelled = text();
    try {
      return parse(spelled);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(c10::str(where_, ": ", error.what()));
    }
  }

  // The same with a default for missing values.
  std::string text_or(const std::string& otherwise) const { return exists() ? text() : otherwise; }
  bool flag_or(bool otherwise) const { return exists() ? flag() : otherwise; }
  double number_or(double otherwise) const { return exists() ? number() : otherwise; }
  int64_t count_or(int64_t otherwise) const { return exists() ? count() : otherwise; }
  /// A number; non-finite numbers are written as null.
  double number_or_nan() const { return number_or(std::numeric_limits<double>::quiet_NaN()); }

  /// Lists, of any length or of the given one; among numbers, null means NaN.
  std::vector<JsonValue> list() const;
  std::vector<std::string> texts() const;
  std::vector<double> numbers(std::optional<size_t> length = {}) const;
  std::vector<int64_t> counts(std::optional<size_t> length = {}) const;
  /// Names and values of an object, in file order.
  std::vector<std::pair<std::string, JsonValue>> members() const;

  /// "run.json: result.steps".
  const std::string& where() const { return where_; }
  /// The JSON value itself.
  const nlohmann::ordered_json& raw() const { return *value_; }
  /// @throws InvalidArgument with the place, what was expected, and what was found.
  [[noreturn]] void refuse(std::string_view expected) const;
  /// @throws InvalidArgument unless the member "format" is `expected`; the message has the program
  ///   version, if the file gives it.
  void require_format(std::string_view expected) const;

 private:
  using Shared = std::shared_ptr<const nlohmann::ordered_json>;

  JsonValue(Shared value, std::string where, bool top)
      : value_(std::move(value)), where_(std::move(where)), top_(top) {}
  JsonValue child(const nlohmann::ordered_json& value, const std::string& step) const;
  void require_list(std::optional<size_t> length, std::string_view of) const;

  Shared value_;  ///< owns the values of the whole text
  std::string where_;
  bool top_;
};

/// Limits of size and nesting; no file of this project exceeds them.
inline constexpr size_t kLongestJson = 100'000'000;
inline constexpr int kDeepestJson = 32;

/// @throws InvalidArgument if the text is not JSON, is longer than kLongestJson, nests deeper than
///   `deepest`, or repeats a name in an object.
JsonValue parse_json(std::string_view text, const std::string& source, int deepest = kDeepestJson);

/// @throws InvalidArgument likewise, and if the file cannot be read.
JsonValue read_json(const std::filesystem::path& path);

/// A scalar in JSON notation, cut to one line of ASCII; lists and objects are described.
std::string excerpt(const nlohmann::ordered_json& value);

/// JSON text that preserves all data. `source` is its name.
/// @throws InvalidArgument, with the place, if a string is not UTF-8.
std::string dump_exactly(const nlohmann::ordered_json& value, const std::string& source,
                         int indent = -1);
/// JSON text for display: bytes that are not UTF-8 become U+FFFD.
std::string dump_readably(const nlohmann::ordered_json& value, int indent = 2);

}  // namespace cdt
