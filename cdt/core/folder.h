/// Folders that several processes may find: one writes at a time, and files that belong together
/// change together.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace cdt {

/// Keeps other writers away from a folder while it lives. The kernel lets go of it when the process
/// ends, however it ends; readers need none.
class FolderLock {
 public:
  /// Then clears up after writers that died: their temporary files go, an update that was committed
  /// is finished, any other is forgotten.
  /// @throws InvalidArgument if another process has the folder (the message names it), or the
  /// folder
  ///   is not there or may not be written; IoError if the machine refuses.
  explicit FolderLock(std::filesystem::path folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  /// The permissions that the file of this name has, or had when the lock was taken.
  std::optional<unsigned> mode_of(const std::string& name) const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::map<std::string, unsigned> modes_;
};

/// Who holds the lock of a folder, in words ("process 4711 on host"); empty if it is free.
std::string lock_holder(const std::filesystem::path& folder);

/// Files of a folder that change together or not at all, whatever fails or is killed: they
/// are written to a folder within it that is closed to others, one rename commits them all, and who
/// comes next finishes what the process did not live to do. Each has the mode that the file of its
/// name has, or had when the folder was locked; a new one is open to nobody whom the files that are
/// replaced with it are closed to.
class FolderUpdate {
 public:
  /// @throws InvalidArgument, IoError as the functions of core/io/file.h; so do the others.
  explicit FolderUpdate(const FolderLock& lock);
  /// Forgets what was not committed.
  ~FolderUpdate();
  FolderUpdate(const FolderUpdate&) = delete;
  FolderUpdate& operator=(const FolderUpdate&) = delete;

  /// Where to write the new files, and one of them.
  const std::filesystem::path& path() const { return staged_; }
  std::filesystem::path operator/(const std::string& name) const { return staged_ / name; }
  /// The file shall go, before a new one of its name comes; it need not be there.
  void remove(const std::string& name) const;
  /// If it throws, nothing has changed, unless committed() says that the folder is as good as new:
  /// then the next lock or reader finishes it.
  void commit();
  bool committed() const { return committed_; }

 private:
  const FolderLock& lock_;
  std::filesystem::path folder_;
  std::filesystem::path staged_;
  bool committed_ = false;
};

/// For readers: finishes a committed update whose writer has died. Where that cannot be (no
/// permission, a writer at work) it does nothing.
void finish_update(const std::filesystem::path& folder) noexcept;

}  // namespace cdt
