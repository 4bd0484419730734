/// System calls of this test's process that fail, or are its last, when told to. The functions of
/// the C library that write are defined here and call the true ones; only syncs are left out, which
/// matter to a power failure alone and take long.
#pragma once

#include <cstdint>
#include <functional>

namespace cdt::test {

enum class Fault {
  kOnce,  ///< the call fails, as on a full disk; those after it do not
  kFull,  ///< it and all that follow fail
  kKill,  ///< the process ends there, with half of a write done
};

/// How a process ended that had a fault in its way.
enum class End {
  kWell,     ///< there were fewer calls
  kWarned,   ///< well, though the call failed
  kRefused,  ///< with an IoError
  kKilled,
  kOther,
};
/// Does the work in a process of its own, with the fault at call number `at` (below).
End work_apart(const std::function<void()>& work, int64_t at, Fault fault);
/// Likewise without a fault; whether it ended well. (A process in which autograd has run can have
/// no children that use it, with some builds of LibTorch: so none of it runs in the tests' own.)
bool work_apart(const std::function<void()>& work);

/// Call number `at`, from 1, of those that create, write, sync, close, rename or remove gets the
/// fault, for a scope.
class FaultScope {
 public:
  FaultScope(int64_t at, Fault fault);
  ~FaultScope();
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

  /// Whether there were so many calls.
  bool reached() const;
};

/// While it lives, the clock on the wall goes back by an hour each time that it is read.
class ClockScope {
 public:
  ClockScope();
  ~ClockScope();
  ClockScope(const ClockScope&) = delete;
  ClockScope& operator=(const ClockScope&) = delete;

  int64_t readings() const;
};

}  // namespace cdt::test
