/// Every reader of the project as a function of bytes: what fuzzing calls, and what the tests
/// replay the corpus with.
#pragma once

#include <string_view>
#include <vector>

namespace cdt::fuzz {

/// What the bytes look like, so that mutations can keep most of it.
enum class Shape { kBytes, kJson, kToml, kSafetensors };

struct Target {
  const char* name;  ///< of its folder in tests/corpus
  Shape shape;
  /// Reads the bytes, and uses what came of them as the program would. Bytes that are refused with
  /// InvalidArgument or NumericalError are fine; anything else is a finding.
  void (*read)(std::string_view bytes);
};

const std::vector<Target>& targets();
/// @throws InvalidArgument, naming those that there are.
const Target& find_target(std::string_view name);

/// Reads as a target does, and swallows the refusals.
void run(const Target& target, std::string_view bytes);

}  // namespace cdt::fuzz
