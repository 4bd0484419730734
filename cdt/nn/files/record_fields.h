/// Fields that the records of several networks share.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/nn/activation.h>
#include <cdt/nn/parametrization.h>

namespace cdt::nn {

/// Larger layers are a mistake.
inline constexpr int64_t kMostUnits = std::numeric_limits<int32_t>::max();

inline void units_field(Fields& f, const char* name, int64_t& value) {
  f.whole(name, value, 1, kMostUnits);
}
inline void activation_field(Fields& f, Activation& activation) {
  f.spelled(
      "activation", activation, [](Activation value) { return to_string(value); },
      parse_activation);
}
inline void parametrization_field(Fields& f, Parametrization& parametrization) {
  f.spelled(
      "parametrization", parametrization, [](Parametrization value) { return to_string(value); },
      parse_parametrization);
}

}  // namespace cdt::nn
