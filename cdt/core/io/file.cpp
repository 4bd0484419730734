/// Uses POSIX calls for files, since C++ streams can neither sync nor report why they failed.
#include "cdt/core/io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cdt/core/error.h"
#include "cdt/core/io/checksum.h"
#include "cdt/core/io/json.h"
#include "cdt/core/io/own_file.h"

namespace cdt {
namespace {

namespace fs = std::filesystem;

/// Whether the path given by the caller does not exist, is not permitted, or is invalid.
bool is_callers_mistake(int code) {
  constexpr std::array kMistakes{ENOENT, ENOTDIR, EISDIR, ENAMETOOLONG, ELOOP,
                                 EACCES, EPERM,   EEXIST, EINVAL};
  return std::find(kMistakes.begin(), kMistakes.end(), code) != kMistakes.end();
}

[[noreturn]] void throw_on_folder(std::string_view action, const fs::path& path) {
  throw InvalidArgument(
      c10::str("cannot ", action, " ", path.string(), ": expected a file, got a folder"));
}

/// Repeats a system call while signals interrupt it.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

/// An open file, closed at the end of its scope.
class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Returns false with the reason in errno.
  bool open(const fs::path& path, int flags, mode_t mode = 0) {
    number_ = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
    return number_ >= 0;
  }
  /// Network file systems report failed writes here. Linux closes even if interrupted.
  bool close() { return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR; }
  int number() const { return number_; }

 private:
  int number_ = -1;
};

/// A new, empty file beside `target`, with this mode or a more restrictive one; unlinked at the end
/// of its scope unless renamed to the target.
class Temporary {
 public:
  /// The name is independent of the target's, which may already have the maximum length. A name in
  /// use (another thread, another machine on the same disk, an earlier crash) is skipped.
  Temporary(const fs::path& target, mode_t mode) {
    const std::string stem = ".cdt-" + std::to_string(::getpid()) + "-";
    for (int attempt = 0; attempt < 10000; ++attempt) {
      path_ = target.parent_path() / (stem + std::to_string(attempt) + ".tmp");
      if (!descriptor_.open(path_, O_WRONLY | O_CREAT | O_EXCL, mode)) {
        if (errno != EEXIST) break;
      } else if (lock()) {
        return;
      } else {
        descriptor_.close();
      }
    }
    throw_file_error("write", target, errno);
  }
  ~Temporary() {
    if (!renamed_) ::unlink(path_.c_str());
    if (lock_ >= 0) ::close(lock_);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  Descriptor& descriptor() { return descriptor_; }
  bool rename_to(const fs::path& target) {
    renamed_ = ::rename(path_.c_str(), target.c_str()) == 0;
    return renamed_;
  }

 private:
  /// Locks the file until the rename, which tells remove_leftovers that the writer is alive; the
  /// file itself is closed before. False if a process on another machine, which could not tell, has
  /// just removed it. Waits for such a process; failures mean a file system without locks, where
  /// nothing is removed.
  bool lock() {
    lock_ = ::fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0);
    uninterrupted([&] { return ::flock(descriptor_.number(), LOCK_EX); });
    struct stat status {};
    const bool there = ::fstat(descriptor_.number(), &status) == 0 && status.st_nlink > 0;
    if (!there && lock_ >= 0) ::close(std::exchange(lock_, -1));
    return there;
  }

  fs::path path_;
  Descriptor descriptor_;
  int lock_ = -1;  ///< a second descriptor of the same file
  bool renamed_ = false;
};

/// Returns false with the reason in errno.
bool write_all(int descriptor, const std::vector<std::string_view>& pieces) {
  for (std::string_view piece : pieces) {
    while (!piece.empty()) {
      const ssize_t count =
          uninterrupted([&] { return ::write(descriptor, piece.data(), piece.size()); });
      if (count < 0) return false;
      piece.remove_prefix(static_cast<size_t>(count));
    }
  }
  return true;
}

/// Where a write to `path` would end up. Unlike fs::canonical it also follows a link to a missing
/// file. Stops anywhere in a cycle; the caller's stat has rejected those.
fs::path follow_links(fs::path path) {
  std::error_code ignored;
  for (int hop = 0; hop < 40 && fs::is_symlink(fs::symlink_status(path, ignored)); ++hop) {
    path = path.parent_path() / fs::read_symlink(path, ignored);
  }
  return path;
}

/// A rename checks permissions of the folder, not of the file.
void require_writable(const fs::path& path) {
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
    throw_file_error("write", path, errno);
  }
}

/// Replaces `target` by a new file, whose permissions never exceed `mode`; if `exactly`, they equal
/// it regardless of the umask. Messages call it `name`.
void replace(const fs::path& target, const std::vector<std::string_view>& pieces, mode_t mode,
             bool exactly, const fs::path& name) {
  remove_leftovers(target.has_parent_path() ? target.parent_path() : fs::path("."));
  Temporary temporary(target, mode);
  Descriptor& file = temporary.descriptor();
  if ((exactly && ::fchmod(file.number(), mode) != 0) || !write_all(file.number(), pieces) ||
      uninterrupted([&] { return ::fsync(file.number()); }) != 0 || !file.close() ||
      !temporary.rename_to(target)) {
    throw_file_error("write", name, errno);
  }
  sync_folder(target.parent_path());
}

/// For pipes, terminals and devices, which a rename would replace instead of writing to them.
void write_directly(const fs::path& path, const std::vector<std::string_view>& pieces) {
  Descriptor file;
  if (!file.open(path, O_WRONLY) || !write_all(file.number(), pieces) || !file.close()) {
    throw_file_error("write", path, errno);
  }
}

/// The process id in a name made by Temporary; 0 if it is not such a name.
pid_t writer_of(const std::string& name) {
  int pid = 0;
  int attempt = 0;
  int length = 0;
  const bool ours = std::sscanf(name.c_str(), ".cdt-%d-%d.tmp%n", &pid, &attempt, &length) == 2 &&
                    length == static_cast<int>(name.size());
  return ours ? pid : 0;
}

/// Removes the file if its lock is free and its writer is dead. Another process may have the
/// writer's id by now (often in a container); then the file must be an hour old.
void remove_if_abandoned(const fs::path& path, pid_t writer) {
  constexpr time_t kLong = 3600;
  Descriptor file;
  struct stat status {
  }, named{};
  if (!file.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) ||
      ::flock(file.number(), LOCK_EX | LOCK_NB) != 0 || ::fstat(file.number(), &status) != 0 ||
      ::lstat(path.c_str(), &named) != 0 || named.st_ino != status.st_ino) {
    return;
  }
  if ((::kill(writer, 0) != 0 && errno == ESRCH) || ::time(nullptr) - status.st_mtime > kLong) {
    ::unlink(path.c_str());  // while locked: writers check that their file still exists
  }
}

/// Opens a regular file only: opening a pipe would wait for its writer.
struct stat open_regular(Descriptor& file, const fs::path& path) {
  struct stat status {};
  if (!file.open(path, O_RDONLY | O_NONBLOCK) || ::fstat(file.number(), &status) != 0) {
    throw_file_error("read", path, errno);
  }
  if (S_ISDIR(status.st_mode)) throw_on_folder("read", path);
  CDT_REQUIRE(S_ISREG(status.st_mode), "cannot read ", path.string(),
              ": expected a regular file, got a pipe or a device");
  return status;
}

/// Reads an open file; messages call it `path`.
std::string read_open(const Descriptor& file, const struct stat& status, const fs::path& path,
                      size_t longest) {
  const auto require_short = [&](size_t size) {
    CDT_REQUIRE(size <= longest, path.string(), ": expected a file of at most ", longest,
                " bytes, got a larger one");
  };
  require_short(static_cast<size_t>(status.st_size));

  // The size is a hint: pipes and /proc report zero, and a file may grow during reading. One extra
  // byte lets the last read detect the end without growing the buffer.
  std::string bytes;
  size_t used = 0;
  try {
    bytes.resize(static_cast<size_t>(status.st_size) + 1);
    while (true) {
      if (used == bytes.size()) bytes.resize(2 * bytes.size() + 4096);
      const ssize_t count = uninterrupted(
          [&] { return ::read(file.number(), bytes.data() + used, bytes.size() - used); });
      if (count < 0) throw_file_error("read", path, errno);
      if (count == 0) break;
      used += static_cast<size_t>(count);
      require_short(used);
    }
  } catch (const std::bad_alloc&) {
    throw_file_error("read", path, ENOMEM);
  } catch (const std::length_error&) {
    throw_file_error("read", path, EFBIG);
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace

void throw_file_error(std::string_view action, const fs::path& path, int code) {
  const std::string message =
      c10::str("cannot ", action, " ", path.string(), ": ", std::generic_category().message(code));
  if (is_callers_mistake(code)) throw InvalidArgument(message);
  throw IoError(message);
}

std::string read_file(const fs::path& path, size_t longest) {
  Descriptor file;
  struct stat status {};
  if (!file.open(path, O_RDONLY) || ::fstat(file.number(), &status) != 0) {
    throw_file_error("read", path, errno);
  }
  if (S_ISDIR(status.st_mode)) throw_on_folder("read", path);
  return read_open(file, status, path, longest);
}

std::string read_regular_file(const fs::path& path, size_t longest) {
  Descriptor file;
  const struct stat status = open_regular(file, path);
  return read_open(file, status, path, longest);
}

void require_file_name(std::string_view name, std::string_view what) {
  constexpr size_t kLongest = 200;  // of 255, leaving room for suffixes
  const auto odd = [](unsigned char c) { return c == '/' || c < ' ' || c == 0x7f; };
  CDT_REQUIRE(!name.empty() && name.size() <= kLongest && name.front() != '.' &&
                  std::none_of(name.begin(), name.end(), odd),
              what, ": expected a name for a file, of 1 to ", kLongest,
              " bytes, without a slash, a control character or a dot in front, got ",
              excerpt(std::string(name)));
}

std::string checksum_of_file(const fs::path& path) {
  Descriptor file;
  open_regular(file, path);
  Checksum sum;
  std::string block(size_t{1} << 20, '\0');
  while (true) {
    const ssize_t count =
        uninterrupted([&] { return ::read(file.number(), block.data(), block.size()); });
    if (count < 0) throw_file_error("read", path, errno);
    if (count == 0) return sum.text();
    sum.add(std::string_view(block).substr(0, static_cast<size_t>(count)));
  }
}

void write_file_atomically(const fs::path& path, const std::vector<std::string_view>& pieces) {
  CDT_REQUIRE(path.has_filename(), "expected the name of a file to write, got \"", path.string(),
              "\"");
  // Also if the shell redirected stdout to a file: later output must follow it, not vanish with a
  // replaced file.
  if (path == "/dev/stdout" || path == "/dev/stderr") {
    const int descriptor = path == "/dev/stdout" ? STDOUT_FILENO : STDERR_FILENO;
    if (!write_all(descriptor, pieces)) throw_file_error("write", path, errno);
    return;
  }

  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) throw_file_error("write", path, errno);
  if (exists && S_ISDIR(status.st_mode)) throw_on_folder("write", path);
  if (exists && !S_ISREG(status.st_mode)) return write_directly(path, pieces);
  if (exists) require_writable(path);
  if (exists) return replace(follow_links(path), pieces, status.st_mode & 0777, true, path);
  replace(follow_links(path), pieces, 0666, false, path);
}

void write_own_file(const fs::path& path, const std::vector<std::string_view>& pieces,
                    mode_t mode) {
  struct stat status {};
  const bool exists = ::lstat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) throw_file_error("write", path, errno);
  if (exists && S_ISDIR(status.st_mode)) throw_on_folder("write", path);
  if (!exists || !S_ISREG(status.st_mode)) return replace(path, pieces, mode, false, path);
  require_writable(path);
  replace(path, pieces, status.st_mode & 0777, true, path);
}

void sync_folder(const fs::path& folder) {
  Descriptor open;
  if (!open.open(folder.empty() ? fs::path(".") : folder, O_RDONLY | O_DIRECTORY)) {
    // A folder may be writable but not readable.
    if (errno == EACCES) return;
    throw_file_error("open", folder, errno);
  }
  // Some file systems cannot sync folders.
  if (uninterrupted([&] { return ::fsync(open.number()); }) != 0 && errno != EINVAL) {
    throw_file_error("write", folder, errno);
  }
}

void make_own_folder(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return make_folders(path);
  CDT_REQUIRE(!S_ISLNK(status.st_mode), path.string(),
              ": expected a folder, got a link, which nothing is written through; put the "
              "folder itself there");
  CDT_REQUIRE(S_ISDIR(status.st_mode), path.string(), ": expected a folder, got a file");
}

bool path_exists(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw_file_error("look at", path, errno);
  return false;
}

bool folder_exists(const fs::path& path) {
  struct stat status {};
  return path_exists(path) && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

void make_folders(const fs::path& path) {
  if (path.empty() || folder_exists(path)) return;
  if (!path_exists(path.parent_path())) make_folders(path.parent_path());
  if (!path.has_filename() || ::mkdir(path.c_str(), 0777) == 0) return;
  // Another process may have created it meanwhile.
  const int code = errno;
  CDT_REQUIRE(code != EEXIST || folder_exists(path), path.string(),
              ": expected a folder, got a file");
  if (code != EEXIST) throw_file_error("create", path, code);
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_file_error("remove", path, errno);
}

void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const pid_t writer = writer_of(entry->path().filename().string());
    if (writer > 0) remove_if_abandoned(entry->path(), writer);
  }
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  struct stat one {
  }, other{};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 &&
         one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace cdt
