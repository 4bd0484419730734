/// --workers: several processes that train one network together.
#pragma once

#include <cdt/train/ranks.h>

#include "cli/command.h"

namespace cdt::cli {

class Workers {
 public:
  void add_to(CLI::App& app);

  /// If several workers were requested and this process is not yet one of them: starts them, waits
  /// for them, and returns the exit code.
  std::optional<int> run_all() const;
  /// Joins the other workers, if the environment makes this process one of them. On the CPU, sets
  /// its share of the machine's cores in `machine` unless the number of threads was given.
  /// @throws IoError if they cannot be reached.
  std::shared_ptr<const train::Ranks> join(MachineOptions& machine) const;
  /// Tells the other workers about an error that ends this rank.
  static void tell(const train::Ranks& ranks, const std::string& why);

 private:
  int64_t count_ = 1;
  double timeout_ = 60;
};

/// Debian's package that workers need; nullptr if they are available.
const char* package_of_workers();

}  // namespace cdt::cli
