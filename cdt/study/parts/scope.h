/// Which settings are read for which goals and methods: one table, for checks, help and
/// documentation.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/run_options.h>

#include <functional>
#include <string>
#include <vector>

namespace cdt::study {

/// For whom a setting is there. Given elsewhere it would do nothing, so it is refused.
struct Scope {
  using Reads = std::function<bool(const train::MethodTraits&)>;
  Reads fit;      ///< whether a method reads it under the goal fit; empty: none does
  Reads predict;  ///< likewise; `guarded` is the path there
  /// What else it needs, in words ("schedule step"), and whether that is so; empty: nothing.
  std::string needs;
  std::function<bool(const RunOptions&)> met;

  bool reads(Goal goal, const train::Method& method) const;
  /// The methods of the library that read it.
  std::vector<train::Method> of(Goal goal) const;
};

/// That of the setting of this name; of one without an entry: all goals and methods.
const Scope& scope_of(const std::string& name);

/// A setting that would do nothing, why, and what would read it.
struct Unread {
  std::string name;
  std::string reason;                  ///< "the method adam does not read it"
  bool other_goal = false;             ///< the other goal would, by this or another method
  std::vector<train::Method> methods;  ///< those of this goal that would
};
/// "p: the method adam does not read it; give --method cdt, or leave it out"
std::string to_text(const Unread& unread, study::Goal goal);

/// The first setting of those in `names` that these options would not read.
std::optional<Unread> find_unread(const RunOptions& options, const std::vector<std::string>& names);

/// @throws InvalidArgument, naming the setting and what reads it, if one is decided that the goal
///   or the method would not read. Those in `except` may stand: a saved run's own.
void require_read(const RunOptions& options, const std::vector<std::string>& except = {});

}  // namespace cdt::study
