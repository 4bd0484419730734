/// A run's claim on its folder during training: no other process writes there, files change
/// together with run.json, and a run that is replaced remains until the new one has results.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/folder.h>
#include <cdt/run/folder.h>
#include <cdt/run/options.h>

#include <functional>
#include <optional>

namespace cdt::run {

class Claim {
 public:
  /// Uses folder, resume, overwrite and inputs of the options, which must outlive it.
  explicit Claim(const Options& options) : options_(options), folder_(options.folder) {}

  /// Locks an existing folder before anything is read, so that no other process changes the run to
  /// resume or replace.
  /// @throws InvalidArgument if there is no run to resume, or one that must not be replaced, or an
  ///   input is a file of the folder; also as FolderLock does.
  void lock_known_folder();

  /// Creates the folder, by default the first unused of run1, run2, …, and locks it, unless it is
  /// locked.
  /// @throws InvalidArgument if another process was faster, or the folder has folders or files of
  ///   these names that belong to no run and must not be replaced; also as FolderLock does.
  void take();

  /// Undoes an unused claim: removes a folder that was created and is empty.
  void give_back();

  const RunFolder& folder() const { return folder_; }

  /// Writes files to `staged`, and sets in the record what run.json must contain.
  using Write = std::function<void(const RunFolder& staged, RunRecord& record)>;

  /// Starts a new run, to which no existing file of the folder belongs. A replaced run remains
  /// until there are results.
  void begin(RunRecord& record, const data::Preprocess& preprocess);
  /// Writes files that are useless by themselves; if a run is being replaced, together with the
  /// next files.
  void add(RunRecord& record, const Write& write) { update(record, !replaces_, write); }
  /// Writes results. If it throws, folder and record are both as before, or both new.
  void show(RunRecord& record, const Write& write) { update(record, true, write); }
  /// Removes the report, which is out of date, while files are written.
  void drop_report() const;
  /// File mode of a new report: as before, or not more permissive than that of run.json.
  unsigned mode_of_report() const;

 private:
  void require_free() const;
  void require_own_files() const;
  void require_outside_of_pictures() const;
  void update(RunRecord& record, bool commit, const Write& write);

  const Options& options_;
  RunFolder folder_;
  std::optional<FolderLock> lock_;
  /// Lives longer than a call if a run is being replaced.
  std::optional<FolderUpdate> update_;
  bool replaces_ = false;
  bool made_folder_ = false;
};

}  // namespace cdt::run
