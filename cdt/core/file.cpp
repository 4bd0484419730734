/// Files through POSIX calls: C++ streams can neither sync nor say why they failed.
#include "cdt/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cdt/core/error.h"

namespace cdt {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view action, const fs::path& path, int code) {
  throw InvalidArgument(
      c10::str("cannot ", action, " ", path.string(), ": ", std::generic_category().message(code)));
}

[[noreturn]] void fail_on_folder(std::string_view action, const fs::path& path) {
  throw InvalidArgument(
      c10::str("cannot ", action, " ", path.string(), ": expected a file, but it is a folder"));
}

/// Repeats a system call for as long as signals interrupt it.
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

  /// False leaves the reason in errno.
  bool open(const fs::path& path, int flags, mode_t mode = 0) {
    number_ = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
    return number_ >= 0;
  }
  /// Network file systems report a failed write here. Linux closes even when interrupted.
  bool close() { return ::close(std::exchange(number_, -1)) == 0 || errno == EINTR; }
  int number() const { return number_; }

 private:
  int number_ = -1;
};

/// A new, empty file beside `target`, unlinked at the end of its scope unless it took the target's
/// place.
class Temporary {
 public:
  /// The name is not made from the target's: that may already be as long as a name can be. A name
  /// that is taken (another thread, another machine on the same disk, a crash long ago) is left
  /// alone and the next one tried.
  explicit Temporary(const fs::path& target) {
    const std::string stem = ".cdt-" + std::to_string(::getpid()) + "-";
    for (int attempt = 0; attempt < 10000; ++attempt) {
      path_ = target.parent_path() / (stem + std::to_string(attempt) + ".tmp");
      if (descriptor_.open(path_, O_WRONLY | O_CREAT | O_EXCL, 0666)) return;
      if (errno != EEXIST) break;
    }
    fail("write", target, errno);
  }
  ~Temporary() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  Descriptor& descriptor() { return descriptor_; }
  bool rename_to(const fs::path& target) {
    renamed_ = ::rename(path_.c_str(), target.c_str()) == 0;
    return renamed_;
  }

 private:
  fs::path path_;
  Descriptor descriptor_;
  bool renamed_ = false;
};

/// False leaves the reason in errno.
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

/// Where writing to `path` would end up. Unlike fs::canonical this also follows a link to a file
/// that does not exist yet. In a cycle it stops anywhere; the caller's stat has refused those.
fs::path follow_links(fs::path path) {
  std::error_code ignored;
  for (int hop = 0; hop < 40 && fs::is_symlink(fs::symlink_status(path, ignored)); ++hop) {
    path = path.parent_path() / fs::read_symlink(path, ignored);
  }
  return path;
}

/// For pipes, terminals and devices, which a rename would replace instead of feeding.
void write_directly(const fs::path& path, const std::vector<std::string_view>& pieces) {
  Descriptor file;
  if (!file.open(path, O_WRONLY) || !write_all(file.number(), pieces) || !file.close()) {
    fail("write", path, errno);
  }
}

}  // namespace

std::string read_file(const fs::path& path) {
  Descriptor file;
  struct stat status {};
  if (!file.open(path, O_RDONLY) || ::fstat(file.number(), &status) != 0) {
    fail("read", path, errno);
  }
  if (S_ISDIR(status.st_mode)) fail_on_folder("read", path);

  // The size is a hint: pipes and /proc report zero, and a file may grow as we read. One byte more
  // lets the last read see the end without growing the buffer.
  std::string bytes;
  size_t used = 0;
  try {
    bytes.resize(static_cast<size_t>(status.st_size) + 1);
    while (true) {
      if (used == bytes.size()) bytes.resize(2 * bytes.size() + 4096);
      const ssize_t count = uninterrupted(
          [&] { return ::read(file.number(), bytes.data() + used, bytes.size() - used); });
      if (count < 0) fail("read", path, errno);
      if (count == 0) break;
      used += static_cast<size_t>(count);
    }
  } catch (const std::bad_alloc&) {
    fail("read", path, ENOMEM);
  } catch (const std::length_error&) {
    fail("read", path, EFBIG);
  }
  bytes.resize(used);
  return bytes;
}

void write_file_atomically(const fs::path& path, const std::vector<std::string_view>& pieces) {
  CDT_REQUIRE(path.has_filename(), "expected the name of a file to write, but came \"",
              path.string(), "\"");
  // Even where the shell redirected stdout to a file: what is printed later must follow, not
  // vanish with the replaced file.
  if (path == "/dev/stdout" || path == "/dev/stderr") {
    const int descriptor = path == "/dev/stdout" ? STDOUT_FILENO : STDERR_FILENO;
    if (!write_all(descriptor, pieces)) fail("write", path, errno);
    return;
  }

  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail("write", path, errno);
  if (exists && S_ISDIR(status.st_mode)) fail_on_folder("write", path);
  if (exists && !S_ISREG(status.st_mode)) return write_directly(path, pieces);
  // A rename asks the folder for permission, never the file.
  if (exists && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0)
    fail("write", path, errno);

  const fs::path target = follow_links(path);
  Temporary temporary(target);
  Descriptor& file = temporary.descriptor();
  if ((exists && ::fchmod(file.number(), status.st_mode & 0777) != 0) ||
      !write_all(file.number(), pieces) ||
      uninterrupted([&] { return ::fsync(file.number()); }) != 0 || !file.close() ||
      !temporary.rename_to(target)) {
    fail("write", path, errno);
  }
}

}  // namespace cdt
