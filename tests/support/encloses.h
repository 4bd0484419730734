// Numbers that are exact or bounded, against exact ones.
#pragma once

#include <cdt/control/certificate.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace cdt::test {

/// An exact number equals the other one to 1e-8; bounds lie around it. Both but for rounding,
/// relative to `size`.
inline void expect_encloses(const control::Known& found, const control::Known& exact,
                            double rounding, double size, const char* name) {
  SCOPED_TRACE(name);
  ASSERT_TRUE(exact.exact() && found.bounded());
  if (found.exact()) {
    EXPECT_NEAR(found.value, exact.value, std::max(1e-8, rounding) * size);
  } else {
    EXPECT_LE(found.lower, exact.value + rounding * size);
    EXPECT_GE(found.upper, exact.value - rounding * size);
    EXPECT_LT(found.lower, found.upper);
  }
}

}  // namespace cdt::test
