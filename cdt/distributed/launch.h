/// Several ranks on this machine, as children of this process.
#pragma once

#include <cdt/core/error.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace cdt::distributed {

struct LaunchOptions {
  int64_t workers = 2;
  /// What ranks have to end by themselves once one has failed; then they are killed.
  std::chrono::milliseconds grace{75000};
  /// What there is to say of the place where ranks meet, or of one that could not say it itself.
  std::function<void(const std::string&)> complain = [](const std::string&) {};
};

/// Starts this program once more for each worker, with the same arguments and a place in the
/// environment (place.h), and waits for all of them. Rank 0 has this process's input and output,
/// the others are quiet. Signals that ask to stop are handed on.
/// @returns the exit code of rank 0; 130 if a signal that this process got ended it, else 1 if it
/// was killed.
/// @throws IoError if a process cannot be started.
int launch(const LaunchOptions& options);

}  // namespace cdt::distributed
