/// Folders shared by several processes: one writes at a time, and files that belong together change
/// together.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace cdt {

/// Excludes other writers from a folder. The operating system releases the lock when the process
/// ends, for whatever reason. Readers do not need it.
class FolderLock {
 public:
  /// Locks the folder, then cleans up after writers that crashed: removes their temporary files,
  /// completes a committed update and discards any other.
  /// @throws InvalidArgument if another process holds the lock (the message names it), or the
  ///   folder does not exist or is not writable; IoError if the machine fails.
  explicit FolderLock(std::filesystem::path folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// Permissions of the file of this name, or those it had when the lock was taken.
  std::optional<unsigned> mode_of(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::map<std::string, unsigned> modes_;
};

/// Describes the process that holds a folder's lock ("process 4711 on host"); empty if there is
/// none.
std::string lock_holder(const std::filesystem::path& folder);

/// Replaces several files of a folder atomically: either all change or none, even if the process is
/// killed. New files are written to a private subfolder and committed by one rename; if the process
/// then dies, the next one completes the update. Each file keeps the mode that it has, or had when
/// the folder was locked. A new file gets no permission that a file replaced with it lacks.
class FolderUpdate {
 public:
  /// @throws InvalidArgument, IoError as the functions of core/io/file.h; so do the other members.
  explicit FolderUpdate(const FolderLock& lock);
  /// Discards an uncommitted update.
  ~FolderUpdate();
  FolderUpdate(const FolderUpdate&) = delete;
  FolderUpdate& operator=(const FolderUpdate&) = delete;

  /// The folder for the new files, and the path of one of them.
  const std::filesystem::path& path() const { return staged_; }
  std::filesystem::path operator/(const std::string& name) const { return staged_ / name; }
  /// Removes the file on commit, before a new one of its name is put there; it need not exist.
  void remove(const std::string& name) const;
  /// If it throws, nothing has changed, unless committed() is true: then the next lock or reader
  /// completes the update.
  void commit();
  bool committed() const { return committed_; }

 private:
  const FolderLock& lock_;
  std::filesystem::path folder_;
  std::filesystem::path staged_;
  bool committed_ = false;
};

/// For readers: completes a committed update whose writer has died. Does nothing if it cannot (no
/// permission, or a writer is active).
void finish_update(const std::filesystem::path& folder) noexcept;

}  // namespace cdt
