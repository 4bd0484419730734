#include "cli/workers.h"

#include <cdt/core/error.h>

#include <cmath>
#include <thread>

#ifdef CDT_DISTRIBUTED
#include <cdt/distributed/group/group.h>
#include <cdt/distributed/launch.h>
#endif

namespace cdt::cli {
namespace {

/// Each worker is a process with the whole program in memory.
constexpr int64_t kMostWorkers = 256;

}  // namespace

void Workers::add_to(CLI::App& app) {
  app.add_option("--workers", count_,
                 "processes on this machine that share the rows of a large table, each with its "
                 "part of the cores; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the "
                 "environment join several machines (docs/how-to/large-tables.md)")
      ->check(CLI::Range(int64_t{1}, kMostWorkers))
      ->capture_default_str();
  app.add_option("--worker-timeout", timeout_,
                 "seconds without a sign of life after which a worker counts as lost and the run "
                 "ends")
      ->check(CLI::Range(2.0, 1e6))
      ->capture_default_str();
}

#ifdef CDT_DISTRIBUTED

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(std::llround(1e3 * seconds));
}

/// Seconds beyond the timeout after which workers end by themselves.
constexpr double kGrace = 15;

}  // namespace

std::optional<int> Workers::run_all() const {
  const auto place = distributed::place_in_environment();
  CDT_REQUIRE(!place || count_ == 1 || count_ == place->size, "--workers ", count_,
              " starts processes on this machine, and WORLD_SIZE=", place->size,
              " in the environment says that they have been started; leave one of them out");
  if (place || count_ == 1) return std::nullopt;
  distributed::LaunchOptions options;
  options.workers = count_;
  options.grace = milliseconds(timeout_ + kGrace);
  options.complain = complain;
  return distributed::launch(options);
}

std::shared_ptr<const train::Ranks> Workers::join(MachineOptions& machine) const {
  const auto place = distributed::place_in_environment();
  if (!place || place->size == 1) return train::alone();
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  if (machine.threads == 0) {
    machine.threads = static_cast<int>(std::max<int64_t>(1, cores / place->local_size));
  }
  distributed::GroupOptions options;
  options.silence = milliseconds(timeout_);
  options.device = torch::Device(machine.device);
  return std::make_shared<distributed::Group>(*place, options);
}

void Workers::tell(const train::Ranks& ranks, const std::string& why) {
  if (const auto* group = dynamic_cast<const distributed::Group*>(&ranks)) group->fail(why);
}

const char* package_of_workers() { return nullptr; }

#else

std::optional<int> Workers::run_all() const {
  CDT_REQUIRE(count_ == 1,
              "--workers: this program was built without Gloo's headers (and NCCL's); install "
              "Debian's ",
              package_of_workers(), " and build it again");
  return std::nullopt;
}

std::shared_ptr<const train::Ranks> Workers::join(MachineOptions&) const { return train::alone(); }

void Workers::tell(const train::Ranks&, const std::string&) {}

const char* package_of_workers() { return "libgloo-dev"; }

#endif

}  // namespace cdt::cli
