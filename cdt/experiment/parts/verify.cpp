#include <cdt/core/error.h>
#include <cdt/core/folder.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/seal.h>
#include <cdt/experiment/parts/verify.h>
#include <cdt/experiment/results_file.h>

#include <algorithm>

namespace cdt::experiment {
namespace {

namespace fs = std::filesystem;
using FileState = run::FileCheck::State;

/// Checks a file by `read`, which returns whether there was a checksum to compare.
template <class Read>
run::FileCheck check_sweep_file(const std::string& name, const Read& read) {
  try {
    return {name, read() ? FileState::kIntact : FileState::kUnchecked, ""};
  } catch (const std::exception& error) {
    return {name, FileState::kDamaged, error.what()};
  }
}

std::vector<std::string> run_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder / "runs", error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path name = entry->path().filename();
    if (name.extension() == ".json") names.push_back("runs/" + name.string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

run::FolderCheck verify_sweep(const fs::path& folder) {
  CDT_REQUIRE(holds_sweep(folder), folder.string(),
              ": expected the folder of a sweep, but it has no sweep.json");
  finish_update(folder);
  run::FolderCheck found;
  found.kind = "sweep";
  if (path_exists(folder / "sweep.json")) {
    found.files.push_back(
        check_sweep_file("sweep.json", [&] { return require_intact(folder, "sweep.json"); }));
  } else {
    found.files.push_back({"sweep.json", FileState::kMissing, ""});
  }
  std::map<std::string, std::string> checksums;
  bool ended = path_exists(folder / "results.json");  // a damaged file does not tell
  if (path_exists(folder / "results.json")) {
    found.files.push_back(check_sweep_file("results.json", [&] {
      const report::SweepRecord record = read_results(folder);
      found.version = record.version;
      found.revision = record.revision;
      ended = record.complete;
      checksums = read_checksums(folder);
      const fs::path results = folder / "results.json";
      return require_seal(read_regular_file(results, kLongestJson), results.string());
    }));
  }
  for (const std::string& name : sweep_files()) {
    if (!checksums.contains(name)) continue;
    const std::string& expected = checksums.at(name);
    if (!path_exists(folder / name)) {
      found.files.push_back({name, FileState::kMissing, ""});
      continue;
    }
    found.files.push_back(check_sweep_file(name, [&] {
      const std::string came = checksum_of_file(folder / name);
      CDT_REQUIRE(came == expected, "expected the checksum ", expected, " of results.json, got ",
                  came);
      return true;
    }));
  }
  for (const std::string& name : run_names(folder)) {
    found.files.push_back(check_sweep_file(name, [&] { return require_intact(folder, name); }));
  }
  found.add_notes(folder, ended ? "" : "it has not ended: the command that began it goes on");
  return found;
}

}  // namespace cdt::experiment
