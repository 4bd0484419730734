/// --workers: several processes that train one network together.
#pragma once

#include <cdt/train/ranks.h>

#include "cli/command.h"

namespace cdt::cli {

class Workers {
 public:
  void add_to(CLI::App& app);

  /// Where this process is alone and several were asked for: starts them, waits for their end, and
  /// returns the exit code.
  std::optional<int> run_all() const;
  /// Joins the others, if the environment has a place for this process among them; on the CPU, with
  /// a share of the machine's cores in `machine` unless threads were given.
  /// @throws IoError if they cannot be reached.
  std::shared_ptr<const train::Ranks> join(MachineOptions& machine) const;
  /// What the others shall know of an error that ends this rank.
  static void tell(const train::Ranks& ranks, const std::string& why);

 private:
  int64_t count_ = 1;
  double timeout_ = 60;
};

/// Debian's package without which there are none; nullptr where they are there.
const char* package_of_workers();

}  // namespace cdt::cli
