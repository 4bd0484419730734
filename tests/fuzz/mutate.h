/// Mutations that keep the grammar: random bytes hardly get past the first brace of a JSON text.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>

#include "fuzz/targets.h"

namespace cdt::fuzz {

using Random = std::minstd_rand;
/// Changes some bytes, knowing nothing of them.
using ByteMutation = std::function<std::string(std::string_view)>;

/// Another text of the same shape, one change away; now and then of another one.
std::string mutate(std::string_view text, Shape shape, Random& random, const ByteMutation& bytes);

}  // namespace cdt::fuzz
