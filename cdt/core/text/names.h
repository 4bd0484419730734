/// Conversion between enumerators and their names in options and files.
#pragma once

#include <cdt/core/error.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace cdt {

template <class Enum, size_t N>
using Names = std::array<std::pair<std::string_view, Enum>, N>;

/// @throws InvalidArgument on an unknown name; the message begins with `what` and lists the names.
template <class Enum, size_t N>
Enum parse_name(const Names<Enum, N>& names, std::string_view name, std::string_view what) {
  std::string known;
  for (const auto& [text, value] : names) {
    if (text == name) return value;
    known += c10::str(known.empty() ? "" : ", ", text);
  }
  throw InvalidArgument(c10::str(what, " must be one of ", known, ", got '", name, "'"));
}

template <class Enum, size_t N>
std::string name_of(const Names<Enum, N>& names, Enum value) {
  for (const auto& [text, known] : names) {
    if (known == value) return std::string(text);
  }
  throw InvalidArgument(c10::str("unknown value ", static_cast<int>(value)));
}

}  // namespace cdt
