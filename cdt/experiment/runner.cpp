#include <ATen/Parallel.h>
#include <cdt/core/error.h>
#include <cdt/core/folder.h>
#include <cdt/core/io/file.h>
#include <cdt/core/machine/speed.h>
#include <cdt/data/csv.h>
#include <cdt/experiment/parts/groups.h>
#include <cdt/experiment/runner.h>
#include <cdt/kernel/playback.h>
#include <cdt/study/parts/pictures.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <thread>

namespace cdt::experiment {
namespace {

/// Duration of the rate measurement before each run, with the other jobs running.
constexpr double kMeasured = 0.03;
/// Shorter on a GPU, which is faster and has no other users.
constexpr double kMeasuredOnGpu = 0.003;

/// Matrix products of the runs of one call.
struct Work {
  double gflop = 0;
  double seconds = 0;  ///< lower bound: at the rate measured before each run, over all threads
};

/// Rows without a target, unless these are an error.
int64_t rows_left_out(const data::Table& table, const study::DataOptions& data) {
  if (table.pictures) return 0;
  if (study::missing_target_of(data) == study::MissingTarget::kError) return 0;
  int64_t count = 0;
  for (int64_t row = 0; row < table.rows(); ++row) {
    count += std::any_of(data.targets.begin(), data.targets.end(), [&](const std::string& target) {
      return table.at(target).is_missing(row);
    });
  }
  return count;
}

/// Maximum number of runs trained as one.
int64_t together_of(const RunnerOptions& options) {
  if (options.together > 0) return options.together;
  return options.device.is_cuda() ? kMostTogether : 1;
}

/// Executes `cases`, whose samples are like those of `like`, on `jobs` threads and adds new work to
/// `work`. Empty entries were interrupted.
std::vector<std::optional<CaseRun>> run_cases(const Plan& plan, const std::vector<Case>& cases,
                                              const data::Table& table, const study::Problem& like,
                                              const Store& store, const RunnerOptions& options,
                                              int64_t jobs, Work& work) {
  std::vector<std::optional<CaseRun>> runs(cases.size());
  std::vector<size_t> open;
  std::vector<Case> open_cases;
  for (size_t i = 0; i < cases.size(); ++i) {
    runs[i] = store.load(cases[i]);
    if (runs[i]) continue;
    open.push_back(i);
    open_cases.push_back(cases[i]);
  }
  const auto groups = groups_of(plan, open_cases, like, together_of(options));
  StartKernels kernels;
  std::mutex mutex;
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  size_t done = cases.size() - open.size();
  const auto stop = [&] { return failed || (options.stop && options.stop()); };
  const auto take_turns = [&] {
    at::set_num_threads(1);
    for (size_t turn = next++; turn < groups.size() && !stop(); turn = next++) {
      const std::vector<size_t>& group = groups[turn];
      try {
        const double rate = gemm_rate(torch::kFloat32, options.device,
                                      options.device.is_cuda() ? kMeasuredOnGpu : kMeasured);
        std::vector<CaseRun> made;
        if (group.size() == 1) {
          auto run = execute(plan, open_cases[group[0]], table, options.device, kernels, stop);
          if (!run) return;
          made.push_back(std::move(*run));
        } else {
          std::vector<Case> whats;
          for (const size_t i : group) whats.push_back(open_cases[i]);
          auto found = execute_together(plan, whats, table, options.device, kernels, stop);
          if (!found) return;
          made = std::move(*found);
        }
        for (const CaseRun& run : made) store.save(run);
        const std::lock_guard lock(mutex);
        for (size_t k = 0; k < made.size(); ++k) {
          work.gflop += made[k].operations * 1e-9;
          work.seconds += made[k].operations * 1e-9 / rate / static_cast<double>(jobs);
          ++done;
          if (options.progress) {
            options.progress(static_cast<int64_t>(done), static_cast<int64_t>(cases.size()),
                             made[k].what.key());
          }
          runs[open[group[k]]] = std::move(made[k]);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        failed = true;
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int64_t job = 0; job < jobs; ++job) threads.emplace_back(take_turns);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return runs;
}

}  // namespace

Sweep run(const Plan& plan, const std::filesystem::path& folder, const RunnerOptions& options) {
  return run(plan, study::read_table(plan.data), folder, options);
}

Sweep run(const Plan& plan, const data::Table& table, const std::filesystem::path& folder,
          const RunnerOptions& options) {
  // Reports errors in settings before any run starts.
  require_sound(plan);
  for (const std::string& name : sweep_files()) {
    CDT_REQUIRE(!is_same_file(folder / name, plan.data.file), plan.data.file, ": is ", name,
                " of the folder ", folder.string(),
                ", which the sweep writes; choose another folder, or copy the file");
  }
  CDT_REQUIRE(options.together >= 0, "runs together must be 1 or more, got ", options.together);
  const study::Problem like = study::make_problem(
      table, data_of(plan), network_of(plan, plan.architectures.front().name), 1, options.device);
  CDT_REQUIRE(like.data.x_val.defined(),
              "a sweep compares validation losses, and no rows are left to validate on");
  Sweep sweep;
  sweep.checksum = table.checksum;
  sweep.table_rows = table.rows();
  make_folders(folder);
  const FolderLock lock(folder);
  const Store store(folder, plan, sweep.checksum);

  const std::vector<Case> cases = cases_of(plan);
  const auto total = static_cast<int64_t>(cases.size());
  const int64_t known = std::count_if(
      cases.begin(), cases.end(), [&](const Case& what) { return store.load(what).has_value(); });
  int64_t jobs = options.jobs > 0           ? options.jobs
                 : options.device.is_cuda() ? 1
                                            : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::string> warnings = data::warnings_of(table);
  if (const int64_t count = rows_left_out(table, data_of(plan)); count > 0) {
    warnings.push_back(
        fmt::format("{} of {} rows have no target and are left out", count, table.rows()));
  }
  for (const std::string& text : warnings) {
    if (options.on_warning) options.on_warning(text);
  }
  if (options.on_start) options.on_start(total, known, jobs);
  jobs = std::clamp<int64_t>(total - known, 1, jobs);
  std::optional<kernel::NoRecordingScope> together;
  if (jobs > 1) together.emplace();

  const auto start = Clock::now();
  Work work;
  for (auto& run : run_cases(plan, cases, table, like, store, options, jobs, work)) {
    if (run) sweep.runs.push_back(std::move(*run));
  }
  sweep.wall_seconds = seconds_since(start);
  const auto done = static_cast<int64_t>(sweep.runs.size());
  sweep.made = done - known;
  sweep.complete = done == total;
  sweep.sessions =
      store.add({sweep.made, sweep.wall_seconds, work.gflop, jobs, options.device.str(),
                 TORCH_VERSION, work.seconds > 0 ? work.gflop / work.seconds : 0});
  return sweep;
}

}  // namespace cdt::experiment
