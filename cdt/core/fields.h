/// How a struct that leaves memory is described, once: its member `void fields(Fields& f)` names
/// its parts, in the order of the file, and a child of Fields writes them or reads them.
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

/// Visits the parts of a struct. A child that writes takes their values, a child that reads sets
/// them; what it cannot take is refused with an InvalidArgument that names the place.
///
///     void Expectation::fields(Fields& f) {
///       f.need("target", target);  // refused where it is missing
///       f("r2", r2);               // keeps its value there
///       f.some("later", later);    // written only where there is something to say
///     }
///
/// A part is a number, a text, true or false, a struct with a member `fields`, or a list, a map or
/// an optional of these. Whole numbers are counts, 0 or above. Numbers that are infinite or unknown
/// are written as null, which reads as NaN; of other parts null is one that is missing.
/// Where a struct is written, its description sets nothing.
class Fields {
 public:
  virtual ~Fields() = default;

  virtual bool reads() const = 0;
  /// The first part: what kind of file this is. Refused if it is another.
  virtual void format(std::string_view name) = 0;

  /// A part that keeps its value where it is missing.
  template <class T>
  void operator()(std::string_view name, T& value) {
    enter(name);
    if (!is_missing(std::is_same_v<T, double>)) here(value);
    leave();
  }
  /// A part that is refused where it is missing; a number must be finite.
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
  /// A part that is written only where it is not as usual.
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
  /// A list that has to be there, of this length.
  template <class T>
  void need(std::string_view name, std::vector<T>& values, size_t length) {
    enter(name);
    list(values, length);
    leave();
  }
  /// A whole number within bounds, which has to be there.
  void whole(std::string_view name, int64_t& value, int64_t lowest, int64_t highest = kMost) {
    enter(name);
    whole(value, lowest, highest);
    leave();
  }
  /// A number that has a name, as enumerators do. `parse` throws InvalidArgument on other names.
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
  /// An object within this one, described on the spot, which has to be there.
  template <class Describe>
  void object(std::string_view name, Describe describe) {
    enter(name);
    begin_object();
    describe();
    leave();
  }
  /// A list that has to be there, whose entries are described on the spot.
  template <class T, class Describe>
  void each(std::string_view name, std::vector<T>& values, Describe describe) {
    enter(name);
    entries(values, {}, describe);
    leave();
  }
  /// Entries that are members of this object, under their names; `describe` the value of one.
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
  /// The value itself, at the place of a part or an entry that is described on the spot.
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
  /// A whole number within bounds.
  virtual void whole(int64_t& value, int64_t lowest, int64_t highest) = 0;
  /// A list of this length.
  template <class T>
  void here(std::vector<T>& values, size_t length) {
    list(values, length);
  }
  /// Values as options have them: none is true, one stands by itself, several are a list.
  virtual void words(std::vector<std::string>& values) = 0;
  /// A part that is JSON itself, as its text.
  virtual void json(std::string_view name, std::string& text) = 0;
  /// A part that is not there, and says so.
  void none(std::string_view name) {
    enter(name);
    leave();
  }

  /// Whether a part is there. A child that writes has what it is told.
  virtual bool has(std::string_view name, bool told = true) const = 0;
  /// What was read must hold; `expected` is what the part `name` should have been.
  virtual void require(bool holds, std::string_view name, const std::string& expected) const = 0;

 protected:
  virtual void enter(std::string_view name) = 0;  ///< a part of the object at the present place
  virtual void enter(size_t entry) = 0;           ///< of the list there
  virtual void leave() = 0;
  virtual void begin_object() = 0;
  virtual size_t begin_list(size_t size) = 0;  ///< how many entries it has
  /// Whether what is read has nothing at the place, or null unless that is a value.
  virtual bool is_missing(bool null_counts) const = 0;
  /// Of the members of the object that is read, for `enter` by their numbers: a file may have many.
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
