/// The three errors that the library throws, and the macro that throws the first.
#pragma once

#include <c10/util/StringUtil.h>

#include <stdexcept>

namespace cdt {

/// The caller made an error: a shape, a dtype, a file, an option. The message says what was
/// expected, then what was given.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The machine failed on a valid request: a full disk, a quota, a read-only file system, an
/// input/output error.
class IoError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A numerical failure: no convergence, a non-finite iterate, a failed self-check.
class NumericalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace cdt

/// Throws InvalidArgument with the remaining arguments, streamed one after another, unless
/// `condition` holds.
#define CDT_REQUIRE(condition, ...)                          \
  do {                                                       \
    if (!(condition)) {                                      \
      throw ::cdt::InvalidArgument(::c10::str(__VA_ARGS__)); \
    }                                                        \
  } while (false)
