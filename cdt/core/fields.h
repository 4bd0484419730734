/// Serialization of structs: a member `void fields(Fields& f)` describes a struct's fields once, in
/// file order; subclasses of Fields write or read them.
#pragma once

#include <cdt/core/error.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cdt {

/// Visits the fields of a struct. A writer takes their values, a reader sets them; a value that
/// does not fit raises InvalidArgument with its place in the file.
///
///     void Expectation::fields(Fields& f) {
///       f.need("target", target);  // required
///       f("r2", r2);               // optional: keeps its value if missing
///       f.some("later", later);    // optional: written only if not the default
///     }
///
/// A field is a number, a string, a bool, a struct with a member `fields`, or a list, map or
/// optional of these. Integers are counts, 0 or above. Non-finite numbers are written as null,
/// which reads as NaN; for other fields null means missing. Writing never changes the struct.
class Fields {
 public:
  virtual ~Fields() = default;

  virtual bool reads() const = 0;
  /// The first field: the format of the file. A reader refuses any other.
  virtual void format(std::string_view name) = 0;

  /// An optional field: keeps its value if missing.
  template <class T>
  void operator()(std::string_view name, T& value) {
    enter(name);
    if (!is_missing(std::is_same_v<T, double>)) here(value);
    leave();
  }
  /// A required field; a number must be finite.
  template <class T>
  void need(std::string_view name, T& value) {
    enter(name);
    if constexpr (std::is_same_v<T, double>) {
      finite(value);
    } else {
      here(value);
    }
    leave();
  }
  /// An optional field that is written only if it differs from `usual`.
  template <class T>
  void some(std::string_view name, T& value, const T& usual = T()) {
    bool unusual = true;
    if constexpr (is_list<T>::value) {
      unusual = !value.empty();
    } else if constexpr (is_optional<T>::value) {
      unusual = value.has_value();
    } else {
      unusual = value != usual;
    }
    if (has(name, unusual)) (*this)(name, value);
  }
  /// A required list of this length.
  template <class T>
  void need(std::string_view name, std::vector<T>& values, size_t length) {
    enter(name);
    list(values, length);
    leave();
  }
  /// A required integer within bounds.
  void whole(std::string_view name, int64_t& value, int64_t lowest, int64_t highest = kMost) {
    enter(name);
    whole(value, lowest, highest);
    leave();
  }
  /// A required field with named values, such as an enum. `parse` throws InvalidArgument on other
  /// names.
  template <class T, class Spell, class Parse>
  void spelled(std::string_view name, T& value, Spell spell, Parse parse) {
    enter(name);
    std::string text = reads() ? std::string() : std::string(spell(value));
    here(text);
    try {
      if (reads()) value = parse(text);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(where() + ": " + error.what());
    }
    leave();
  }
  /// A required nested object, described by `describe`.
  template <class Describe>
  void object(std::string_view name, Describe describe) {
    enter(name);
    begin_object();
    describe();
    leave();
  }
  /// A required list whose entries are described by `describe`.
  template <class T, class Describe>
  void each(std::string_view name, std::vector<T>& values, Describe describe) {
    enter(name);
    entries(values, {}, describe);
    leave();
  }
  /// Entries that are members of this object, keyed by their names; `describe` handles the value of
  /// one.
  template <class T, class Describe>
  void members(std::vector<T>& values, std::string T::*name, Describe describe) {
    if (reads()) {
      values.clear();
      for (std::string& each : names()) values.emplace_back().*name = std::move(each);
    }
    for (size_t i = 0; i < values.size(); ++i) {
      enter_member(values[i].*name, i);
      describe(values[i]);
      leave();
    }
  }
  /// The value at the current place, inside `describe`.
  template <class T>
  void here(T& value) {
    if constexpr (std::is_same_v<T, int64_t>) {
      whole(value, 0, kMost);
    } else if constexpr (std::is_same_v<T, int>) {
      int64_t wide = value;
      whole(wide, 0, std::numeric_limits<int>::max());
      value = static_cast<int>(wide);
    } else if constexpr (is_list<T>::value) {
      list(value, {});
    } else if constexpr (is_optional<T>::value) {
      if (reads()) value.emplace();
      if (value) here(*value);
    } else if constexpr (is_map<T>::value) {
      begin_object();
      std::vector<std::string> keys = names();
      for (const auto& [name, unused] : value) {
        if (!reads()) keys.push_back(name);
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        enter_member(keys[i], i);
        here(value[keys[i]]);
        leave();
      }
    } else if constexpr (std::is_class_v<T> && !std::is_same_v<T, std::string>) {
      begin_object();
      value.fields(*this);
    } else {
      scalar(value);
    }
  }
  /// An integer within bounds.
  virtual void whole(int64_t& value, int64_t lowest, int64_t highest) = 0;
  /// A list of this length.
  template <class T>
  void here(std::vector<T>& values, size_t length) {
    list(values, length);
  }
  /// Values of a command-line option: none is written as true, one as itself, several as a list.
  virtual void words(std::vector<std::string>& values) = 0;
  /// A field that holds JSON, passed as text.
  virtual void json(std::string_view name, std::string& text) = 0;
  /// A field that is written as null.
  void none(std::string_view name) {
    enter(name);
    leave();
  }

  /// Whether a field exists. A writer returns `told`.
  virtual bool has(std::string_view name, bool told = true) const = 0;
  /// Throws unless `holds`; `expected` is what the field `name` should have been.
  virtual void require(bool holds, std::string_view name, const std::string& expected) const = 0;

 protected:
  virtual void enter(std::string_view name) = 0;  ///< enters a field of the current object
  virtual void enter(size_t entry) = 0;           ///< enters an entry of the current list
  virtual void leave() = 0;
  virtual void begin_object() = 0;
  virtual size_t begin_list(size_t size) = 0;  ///< returns the number of entries
  /// Whether the input has no value here. null counts as missing unless `null_counts`.
  virtual bool is_missing(bool null_counts) const = 0;
  /// Member names of the object being read; `enter` takes their index, since a file may have many.
  virtual std::vector<std::string> names() = 0;

  virtual void scalar(bool& value) = 0;
  virtual void scalar(double& value) = 0;
  virtual void finite(double& value) = 0;
  virtual void scalar(uint64_t& value) = 0;
  virtual void scalar(std::string& value) = 0;
  virtual void list(std::vector<double>& values, std::optional<size_t> length) = 0;
  virtual void list(std::vector<int64_t>& values, std::optional<size_t> length) = 0;
  virtual void list(std::vector<std::string>& values, std::optional<size_t> length) = 0;
  [[noreturn]] virtual void refuse(const std::string& expected) const = 0;
  virtual std::string where() const = 0;

 private:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  template <class T>
  struct is_list : std::false_type {};
  template <class T>
  struct is_list<std::vector<T>> : std::true_type {};
  template <class T>
  struct is_optional : std::false_type {};
  template <class T>
  struct is_optional<std::optional<T>> : std::true_type {};
  template <class T>
  struct is_map : std::false_type {};
  template <class T>
  struct is_map<std::map<std::string, T>> : std::true_type {};

  void enter_member(const std::string& name, size_t i) {
    if (reads()) {
      enter(i);
    } else {
      enter(name);
    }
  }
  template <class T>
  void list(std::vector<T>& values, std::optional<size_t> length) {
    entries(values, length, [this](T& value) { here(value); });
  }
  template <class T, class Describe>
  void entries(std::vector<T>& values, std::optional<size_t> length, Describe describe) {
    const size_t size = begin_list(values.size());
    if (length && size != *length) refuse("a list of " + std::to_string(*length));
    if (reads()) values.clear();
    for (size_t i = 0; i < size; ++i) {
      if (reads()) values.emplace_back();  // one by one: the first that is none ends a long list
      enter(i);
      describe(values[i]);
      leave();
    }
  }
};

}  // namespace cdt
