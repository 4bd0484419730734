/// Rows of the table of settings: the place in the options, spelling, and help.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/study/settings.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace cdt::study::rows {

using Values = std::vector<std::string>;

inline const std::string& single(const Values& values, const std::string& name) {
  CDT_REQUIRE(values.size() == 1, name, ": expected one value, got ", values.size());
  return values[0];
}

template <class T>
T parse_number(const std::string& text, const std::string& name,
               T highest = std::numeric_limits<T>::max()) {
  using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                  std::conditional_t<std::is_unsigned_v<T>, uint64_t, int64_t>>;
  char* end = nullptr;
  Wide value{};
  errno = 0;
  if constexpr (std::is_floating_point_v<T>) {
    value = std::strtod(text.c_str(), &end);
    if (std::abs(value) < 1) errno = 0;  // underflow is accepted
  } else if constexpr (std::is_unsigned_v<T>) {
    value = std::strtoull(text.c_str(), &end, 0);
    if (text.find('-') != std::string::npos) errno = ERANGE;
  } else {
    value = std::strtoll(text.c_str(), &end, 0);
    if (value < std::numeric_limits<T>::min()) errno = ERANGE;
  }
  CDT_REQUIRE(!text.empty() && end == text.c_str() + text.size(), name, ": expected a number, got ",
              excerpt(text));
  const bool fits = errno != ERANGE && (std::is_floating_point_v<T> || value <= Wide{highest});
  CDT_REQUIRE(fits, name, ": expected a number within ", sizeof(T) * 8, " bits, got ", text);
  return static_cast<T>(value);
}

/// Lists of numbers may be one text with commas, as defaults are. (Names of columns are separate
/// texts, since they may contain commas.)
inline Values split_list(const Values& values) {
  Values items;
  for (const std::string& text : values) {
    for (size_t first = 0; first <= text.size();) {
      const size_t last = std::min(text.find(',', first), text.size());
      items.push_back(text.substr(first, last - first));
      first = last + 1;
    }
  }
  return items;
}

/// A setting, with functions that modify it.
class Row : public Setting {
 public:
  Row(std::string name, Kind kind, decltype(Setting::get) get, decltype(Setting::set) set) {
    this->name = std::move(name);
    this->kind = kind;
    this->get = std::move(get);
    this->set = std::move(set);
  }
  Row of_tables() const { return with(&Setting::about, About::kTables); }
  Row of_pictures() const { return with(&Setting::about, About::kPictures); }
  /// A resumed run may have another value.
  Row free() const { return with(&Setting::may_change, true); }
  /// Its default is not informative.
  Row unlisted() const { return with(&Setting::listed, false); }
  Row among(const std::vector<std::string>& names) const { return with(&Setting::choices, names); }
  Row positive() const { return with(&Setting::range, Range{0, kInfinity, /*open=*/true}); }
  Row in(Group place) const { return with(&Setting::group, place); }
  /// Also shown in the short help.
  Row first() const { return with(&Setting::shown_first, true); }
  Row non_negative() const { return with(&Setting::range, Range{0, kInfinity, false}); }
  Row within(double lowest, double highest) const {
    return with(&Setting::range, Range{lowest, highest, false});
  }
  /// `shown` is the placeholder of the value.
  Row says(const std::string& text, const std::string& shown = "") const {
    return with(&Setting::help, text).with(&Setting::placeholder, shown);
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  template <class T>
  Row with(T Setting::*member, const T& value) const {
    Row row = *this;
    row.*member = value;
    return row;
  }
};

// Below, `field` returns a reference to the place in the options, which may be const.

template <class T>
constexpr Setting::Kind kind_of() {
  using Kind = Setting::Kind;
  return std::is_floating_point_v<T> ? Kind::kReal
         : std::is_unsigned_v<T>     ? Kind::kNatural
                                     : Kind::kWhole;
}

template <class Field>
Row number(const std::string& name, Field field) {
  using T = std::decay_t<decltype(field(std::declval<RunOptions&>()))>;
  return {name, kind_of<T>(),
          [field](const RunOptions& o) { return Values{fmt::format("{}", field(o))}; },
          [field, name](RunOptions& o, const Values& values) {
            field(o) = parse_number<T>(single(values, name), name);
          }};
}

/// An optional number.
template <class Field>
Row optional_number(const std::string& name, Field field) {
  using T = typename std::decay_t<decltype(field(std::declval<RunOptions&>()))>::value_type;
  return {name, kind_of<T>(),
          [field](const RunOptions& o) -> std::optional<Values> {
            if (!field(o)) return std::nullopt;
            return Values{fmt::format("{}", *field(o))};
          },
          [field, name](RunOptions& o, const Values& values) {
            field(o) = parse_number<T>(single(values, name), name);
          }};
}

template <class Field>
Row toggle(const std::string& name, Field field, bool on = true) {
  return {name, Setting::Kind::kSwitch,
          [field, on](const RunOptions& o) -> std::optional<Values> {
            if (field(o) != on) return std::nullopt;
            return Values{};
          },
          [field, on](RunOptions& o, const Values&) { field(o) = on; }};
}

template <class Field, class Parse>
Row named(const std::string& name, Field field, Parse parse) {
  return {name, Setting::Kind::kText,
          [field](const RunOptions& o) { return Values{to_string(field(o))}; },
          [field, parse, name](RunOptions& o, const Values& values) {
            field(o) = parse(single(values, name));
          }};
}

/// A row of a table (train::Named).
template <class Field>
Row of_table(const std::string& name, Field field) {
  using T = std::decay_t<decltype(field(std::declval<RunOptions&>()))>;
  return named(name, field, [](const std::string& text) { return T(text); }).among(T::names());
}

template <class Field>
Row text(const std::string& name, Field field) {
  return {name, Setting::Kind::kText,
          [field](const RunOptions& o) -> std::optional<Values> {
            if (field(o).empty()) return std::nullopt;
            return Values{field(o)};
          },
          [field, name](RunOptions& o, const Values& values) { field(o) = single(values, name); }};
}

template <class Field>
Row texts(const std::string& name, Field field) {
  return {name, Setting::Kind::kTexts,
          [field](const RunOptions& o) -> std::optional<Values> {
            if (field(o).empty()) return std::nullopt;
            return field(o);
          },
          [field](RunOptions& o, const Values& values) { field(o) = values; }};
}

template <class Field>
Row numbers(const std::string& name, Field field) {
  using T = typename std::decay_t<decltype(field(std::declval<RunOptions&>()))>::value_type;
  return {name,
          kind_of<T>() == Setting::Kind::kReal ? Setting::Kind::kReals : Setting::Kind::kWholes,
          [field](const RunOptions& o) -> std::optional<Values> {
            if (field(o).empty()) return std::nullopt;
            Values values;
            for (const T& each : field(o)) values.push_back(fmt::format("{}", each));
            return values;
          },
          [field, name](RunOptions& o, const Values& values) {
            field(o).clear();
            for (const std::string& each : split_list(values)) {
              field(o).push_back(parse_number<T>(each, name));
            }
          }};
}

/// A choice with a default that depends on the goal: `chosen` returns it, given const options.
template <class Field, class Parse, class Chosen>
Row by_goal(const std::string& name, Field field, Parse parse, Chosen chosen) {
  using T = std::decay_t<decltype(chosen(std::declval<const RunOptions&>()))>;
  constexpr bool kNumber = std::is_arithmetic_v<T>;
  return {name, kNumber ? kind_of<T>() : Setting::Kind::kText,
          [chosen](const RunOptions& o) {
            if constexpr (kNumber)
              return Values{fmt::format("{}", chosen(o))};
            else
              return Values{to_string(chosen(o))};
          },
          [field, parse, name](RunOptions& o, const Values& values) {
            field(o) = parse(single(values, name));
          }};
}

template <class T>
auto number_of(const std::string& name) {
  return [name](const std::string& text) { return parse_number<T>(text, name); };
}

}  // namespace cdt::study::rows
