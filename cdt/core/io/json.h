/// JSON of files: read within bounds, with every value knowing its place; written as UTF-8. For the
/// sources of this project alone.
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

/// A value of a JSON text and where it stands. What is not as its reader wants it is refused with
/// an InvalidArgument that says so: `run.json: result.steps: expected a whole number, got
/// "x"`. Null stands for a value that is not there.
class JsonValue {
 public:
  /// The whole of a text. `source` is the file's name, or what else the text is, for messages.
  JsonValue(nlohmann::ordered_json value, std::string source);

  /// Members of an object by name; one that is not there, and those of an object that is not there,
  /// are null.
  JsonValue operator[](std::string_view name) const;
  bool exists() const { return !value_->is_null(); }

  std::string text() const;
  bool flag() const;
  /// Finite.
  double number() const;
  int64_t whole(int64_t lowest = std::numeric_limits<int64_t>::min(),
                int64_t highest = std::numeric_limits<int64_t>::max()) const;
  /// A whole number, zero or above.
  int64_t count() const { return whole(0); }
  uint64_t seed() const;
  /// An enumerator, or what else `parse` makes of a text.
  template <class Parse>
  auto name(Parse parse) const {
    const std::string spelled = text();
    try {
      return parse(spelled);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(c10::str(where_, ": ", error.what()));
    }
  }

  // The same where there may be none.
  std::string text_or(const std::string& otherwise) const { return exists() ? text() : otherwise; }
  bool flag_or(bool otherwise) const { return exists() ? flag() : otherwise; }
  double number_or(double otherwise) const { return exists() ? number() : otherwise; }
  int64_t count_or(int64_t otherwise) const { return exists() ? count() : otherwise; }
  /// A number that was infinite or unknown when it was written is null.
  double number_or_nan() const { return number_or(std::numeric_limits<double>::quiet_NaN()); }

  /// Lists, of any length or of this one; among numbers, null stands for NaN.
  std::vector<JsonValue> list() const;
  std::vector<std::string> texts() const;
  std::vector<double> numbers(std::optional<size_t> length = {}) const;
  std::vector<int64_t> counts(std::optional<size_t> length = {}) const;
  /// Names and values of an object, in the order of the file.
  std::vector<std::pair<std::string, JsonValue>> members() const;

  /// "run.json: result.steps".
  const std::string& where() const { return where_; }
  /// The value itself, to ask for its type or to keep it.
  const nlohmann::ordered_json& raw() const { return *value_; }
  /// @throws InvalidArgument: `where`, what was expected, and what came.
  [[noreturn]] void refuse(std::string_view expected) const;
  /// @throws InvalidArgument unless the member "format" is `expected`; the message has the version
  /// of the program, where the file says it.
  void require_format(std::string_view expected) const;

 private:
  using Shared = std::shared_ptr<const nlohmann::ordered_json>;

  JsonValue(Shared value, std::string where, bool top)
      : value_(std::move(value)), where_(std::move(where)), top_(top) {}
  JsonValue child(const nlohmann::ordered_json& value, const std::string& step) const;
  void require_list(std::optional<size_t> length, std::string_view of) const;

  Shared value_;  ///< keeps the whole text's values
  std::string where_;
  bool top_;
};

/// Sizes and nesting beyond these belong to no file of this project.
inline constexpr size_t kLongestJson = 100'000'000;
inline constexpr int kDeepestJson = 32;

/// @throws InvalidArgument if the text is not JSON, is longer than kLongestJson, nests deeper than
///   `deepest`, or has a name twice in one object.
JsonValue parse_json(std::string_view text, const std::string& source, int deepest = kDeepestJson);

/// @throws InvalidArgument likewise, and if the file cannot be read.
JsonValue read_json(const std::filesystem::path& path);

/// A scalar as JSON spells it, cut to a line and in ASCII; lists and objects in words.
std::string excerpt(const nlohmann::ordered_json& value);

/// The text of a file that is read again. `source` is its name.
/// @throws InvalidArgument, with the place, if a text is not UTF-8.
std::string dump_exactly(const nlohmann::ordered_json& value, const std::string& source,
                         int indent = -1);
/// Text for people and other programs: bytes that are not UTF-8 become U+FFFD.
std::string dump_readably(const nlohmann::ordered_json& value, int indent = 2);

}  // namespace cdt
