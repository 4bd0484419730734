/// Launches several ranks on this machine as child processes.
#pragma once

#include <cdt/core/error.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace cdt::distributed {

struct LaunchOptions {
  int64_t workers = 2;
  /// Time for the other ranks to exit after one has failed, before they are killed.
  std::chrono::milliseconds grace{75000};
  /// Receives messages about the rendezvous, or on behalf of a rank that died without one.
  std::function<void(const std::string&)> complain = [](const std::string&) {};
};

/// Starts this program once per worker, with the same arguments and its rank in the environment
/// (place.h), and waits for all. Rank 0 has this process's input and output; the others are quiet.
/// Signals that ask to stop are forwarded.
/// @returns the exit code of rank 0; if it was killed, 130 if this process received such a signal,
///   otherwise 1.
/// @throws IoError if a process cannot be started.
int launch(const LaunchOptions& options);

}  // namespace cdt::distributed
