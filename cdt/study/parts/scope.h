/// Table of the goals and methods that use each setting, for checks, help and documentation.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/run_options.h>

#include <functional>
#include <string>
#include <vector>

namespace cdt::study {

/// Where a setting applies. Elsewhere it would have no effect, so it is rejected.
struct Scope {
  using Reads = std::function<bool(const train::MethodTraits&)>;
  Reads fit;      ///< whether a method uses it with goal fit; empty: none does
  Reads predict;  ///< likewise for goal predict, where `guarded` is the path
  /// Further requirement in words ("schedule step"), and whether it is met; empty: none.
  std::string needs;
  std::function<bool(const RunOptions&)> met;

  bool reads(Goal goal, const train::Method& method) const;
  /// The methods of the library that read it.
  std::vector<train::Method> of(Goal goal) const;
};

/// Scope of the setting of this name; without an entry: all goals and methods.
const Scope& scope_of(const std::string& name);

/// A setting without effect, the reason, and what would use it.
struct Unread {
  std::string name;
  std::string reason;                  ///< "the method adam does not read it"
  bool other_goal = false;             ///< the other goal would use it, with this or another method
  std::vector<train::Method> methods;  ///< methods of this goal that would use it
};
/// "p: the method adam does not read it; give --method cdt, or leave it out"
std::string to_text(const Unread& unread, study::Goal goal);

/// The first setting in `names` that these options do not use.
std::optional<Unread> find_unread(const RunOptions& options, const std::vector<std::string>& names);

/// @throws InvalidArgument, naming the setting and what uses it, if a decided setting is not used
///   by the goal or the method. Those in `except` are allowed: a saved run's own.
void require_read(const RunOptions& options, const std::vector<std::string>& except = {});

}  // namespace cdt::study
