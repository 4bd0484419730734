#include "cdt/core/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "cdt/core/error.h"
#include "cdt/core/io/file.h"
#include "cdt/core/io/own_file.h"

namespace cdt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = ".cdt-lock";
/// Folder of the new files; renaming it to kCommitted commits.
constexpr const char* kStaged = ".cdt-new";
constexpr const char* kCommitted = ".cdt-next";
/// Marks a file of the folder for removal.
constexpr std::string_view kGone = ".gone";

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

/// A link in place of a folder of ours could lead to other files.
bool is_real_folder(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// Of the file itself, without following links; empty if there is none.
std::optional<mode_t> mode_at(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_mode & 0777;
}

/// Ignores failures: leftovers are harmless.
void forget_staged(const fs::path& folder) {
  const fs::path staged = folder / kStaged;
  if (!is_real_folder(staged)) {
    ::unlink(staged.c_str());
    return;
  }
  for (const std::string& name : files_in(staged)) ::unlink((staged / name).c_str());
  ::rmdir(staged.c_str());
}

/// Moves committed files to their places. Can be repeated after an interruption at any point.
void roll_forward(const fs::path& folder) {
  const fs::path committed = folder / kCommitted;
  if (!is_real_folder(committed)) return;
  // Removals come first, since a removed file may be replaced by a new one.
  std::vector<std::string> names = files_in(committed);
  const auto news = std::stable_partition(
      names.begin(), names.end(), [](const std::string& name) { return name.ends_with(kGone); });
  for (auto name = names.begin(); name != news; ++name) {
    remove_file(folder / name->substr(0, name->size() - kGone.size()));
    remove_file(committed / *name);
  }
  // Otherwise a new file could be taken for one to remove.
  if (news != names.begin()) sync_folder(committed);
  for (auto name = news; name != names.end(); ++name) {
    if (::rename((committed / *name).c_str(), (folder / *name).c_str()) != 0) {
      throw_file_error("write", folder / *name, errno);
    }
  }
  sync_folder(folder);
  if (::rmdir(committed.c_str()) != 0) throw_file_error("remove", committed, errno);
}

/// "process 4711 on host"
std::string read_holder(int descriptor) {
  std::array<char, 300> text{};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : "another process";
}

/// Only informative, so a full disk is ignored. Does not write to files with other hard links.
void write_holder(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || status.st_nlink != 1) return;
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string text = c10::str("process ", ::getpid(), " on ", host.data());
  if (::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return;
  }
}

/// Whether the open file still has this name, since the last holder removes it.
bool is_current(int descriptor, const fs::path& path) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

FolderLock::FolderLock(fs::path folder) : folder_(std::move(folder)) {
  const fs::path path = folder_ / kLockName;
  while (descriptor_ < 0) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0) throw_file_error("write", errno == ELOOP ? path : folder_, errno);
    const bool busy = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (busy) {
      const std::string holder = read_holder(descriptor);
      ::close(descriptor);
      throw InvalidArgument(c10::str(folder_.string(), ": is in use by ", holder));
    }
    // Any other failure means a file system without locks; users must then prevent concurrent
    // writes themselves.
    if (is_current(descriptor, path)) {
      descriptor_ = descriptor;
    } else {
      ::close(descriptor);
    }
  }
  write_holder(descriptor_);
  try {
    roll_forward(folder_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  forget_staged(folder_);
  remove_leftovers(folder_);
  for (const std::string& name : files_in(folder_)) {
    if (const auto mode = mode_at(folder_ / name)) modes_[name] = *mode;
  }
}

std::optional<mode_t> FolderLock::mode_of(const std::string& name) const {
  if (const auto now = mode_at(folder_ / name)) return now;
  const auto before = modes_.find(name);
  return before == modes_.end() ? std::nullopt : std::optional(before->second);
}

FolderLock::~FolderLock() {
  ::unlink((folder_ / kLockName).c_str());
  ::close(descriptor_);
}

std::string lock_holder(const fs::path& folder) {
  const int descriptor =
      ::open((folder / kLockName).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return "";
  const bool busy = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  std::string holder = busy ? read_holder(descriptor) : "";
  ::close(descriptor);
  return holder;
}

FolderUpdate::FolderUpdate(const FolderLock& lock)
    : lock_(lock), folder_(lock.folder()), staged_(folder_ / kStaged) {
  roll_forward(folder_);
  forget_staged(folder_);
  if (::mkdir(staged_.c_str(), 0700) != 0) throw_file_error("create", staged_, errno);
}

FolderUpdate::~FolderUpdate() {
  if (!committed_) forget_staged(folder_);
}

void FolderUpdate::remove(const std::string& name) const {
  struct stat status {};
  if (::lstat((folder_ / name).c_str(), &status) != 0 && errno == ENOENT) return;
  if (S_ISDIR(status.st_mode)) throw_file_error("remove", folder_ / name, EISDIR);
  write_file_atomically(staged_ / (name + std::string(kGone)), {});
}

void FolderUpdate::commit() {
  mode_t together = 0777;
  for (const std::string& name : files_in(staged_)) {
    const fs::path old = folder_ / name;
    // After the committing rename there is no way back.
    if (is_real_folder(old)) throw_file_error("write", old, EISDIR);
    struct stat status {};
    if (::stat(old.c_str(), &status) != 0) continue;
    // As in write_file_atomically: a rename checks permissions of the folder, not of the file.
    if (::faccessat(AT_FDCWD, old.c_str(), W_OK, AT_EACCESS) != 0) {
      throw_file_error("write", old, errno);
    }
    if (const auto mode = mode_at(old)) together &= *mode;
  }
  const auto set_mode = [](const fs::path& path, mode_t mode) {
    if (::chmod(path.c_str(), mode) != 0) throw_file_error("write", path, errno);
  };
  for (const std::string& name : files_in(staged_)) {
    const mode_t made = mode_at(staged_ / name).value_or(0600);
    set_mode(staged_ / name, lock_.mode_of(name).value_or(made & together));
  }
  struct stat status {};
  if (::stat(folder_.c_str(), &status) != 0) throw_file_error("look at", folder_, errno);
  set_mode(staged_, status.st_mode & 0777);  // the same users may complete the update
  sync_folder(staged_);
  if (::rename(staged_.c_str(), (folder_ / kCommitted).c_str()) != 0) {
    throw_file_error("write", folder_, errno);
  }
  committed_ = true;
  sync_folder(folder_);
  roll_forward(folder_);
}

void finish_update(const fs::path& folder) noexcept {
  try {
    if (is_real_folder(folder / kCommitted)) const FolderLock finishes(folder);
  } catch (const std::exception&) {
    return;  // the reader reports the state it finds
  }
}

}  // namespace cdt
