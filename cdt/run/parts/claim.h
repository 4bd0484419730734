/// A run's claim on its folder while it trains: nobody else writes there, files change together
/// with the run.json that knows them, and a run that is replaced stays until the new one has
/// something to show.
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
  /// Of the options, which must outlive it, it asks for folder, resume, overwrite and inputs.
  explicit Claim(const Options& options) : options_(options), folder_(options.folder) {}

  /// Before anything is read: nobody else may change what is to go on or to be replaced.
  /// @throws InvalidArgument if there is no run to resume, or one that shall not be replaced, or
  ///   the folder would take an input for its own; also as FolderLock does.
  void lock_known_folder();

  /// Makes the folder, where none was named the first free one of run1, run2, …, and locks it,
  /// unless it is locked.
  /// @throws InvalidArgument if another process was faster, or the folder has files of these names
  ///   that are of no run, and shall not be replaced, or folders; also as FolderLock does.
  void take();

  /// Gives back what was not begun: a folder that was made and is empty goes.
  void give_back();

  const RunFolder& folder() const { return folder_; }

  /// Writes files to `staged`, and says in the record what run.json shall.
  using Write = std::function<void(const RunFolder& staged, RunRecord& record)>;

  /// A new run: none of the folder's files is of it. One that it replaces stays until there is
  /// something to show.
  void begin(RunRecord& record, const data::Preprocess& preprocess);
  /// Writes what is worth nothing by itself: with the next files, where a run is being replaced.
  void add(RunRecord& record, const Write& write) { update(record, !replaces_, write); }
  /// Writes what there is to show. If it throws, folder and record are as before, or both as new.
  void show(RunRecord& record, const Write& write) { update(record, true, write); }
  /// While files are written: the report is of earlier ones, and goes.
  void drop_report() const;
  /// Of a report that takes its place: as it was, or closed to whom run.json is closed to.
  unsigned mode_of_report() const;

 private:
  void require_free() const;
  void require_own_files() const;
  void require_outside_of_pictures() const;
  void update(RunRecord& record, bool commit, const Write& write);

  const Options& options_;
  RunFolder folder_;
  std::optional<FolderLock> lock_;
  /// Lives longer than a call while there is a run to replace.
  std::optional<FolderUpdate> update_;
  bool replaces_ = false;
  bool made_folder_ = false;
};

}  // namespace cdt::run
