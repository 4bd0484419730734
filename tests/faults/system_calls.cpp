#include "faults/system_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <limits>

#include "cdt/core/error.h"

namespace {

using cdt::test::Fault;

std::atomic<int64_t> calls{0};
std::atomic<int64_t> faulty{0};  ///< 0: none
std::atomic<Fault> kind{Fault::kOnce};
std::atomic<int64_t> clock_readings{-1};  ///< −1: the true clock
/// Descriptors of files that are being written.
std::atomic<bool> written[1024];

template <class Function>
Function* true_one(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Whether this call is to fail; does not return if it is the last.
bool fails() {
  if (faulty == 0) return false;
  const int64_t call = ++calls;
  if (call < faulty || (kind != Fault::kFull && call > faulty)) return false;
  if (kind == Fault::kKill) ::_exit(static_cast<int>(cdt::test::End::kKilled));
  errno = ENOSPC;
  return true;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  static auto* const call = true_one<int(const char*, int, ...)>("open");
  if ((flags & O_CREAT) != 0 && fails()) return -1;
  const int descriptor = call(path, flags, mode);
  if (descriptor >= 0 && descriptor < 1024) written[descriptor] = (flags & O_ACCMODE) != O_RDONLY;
  return descriptor;
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  static auto* const call = true_one<ssize_t(int, const void*, size_t)>("write");
  if (descriptor <= STDERR_FILENO || faulty == 0) return call(descriptor, bytes, count);
  if (kind == Fault::kKill && calls + 1 == faulty) call(descriptor, bytes, count / 2);
  return fails() ? -1 : call(descriptor, bytes, count);
}

int fsync(int) { return fails() ? -1 : 0; }

int close(int descriptor) {
  static auto* const call = true_one<int(int)>("close");
  const bool counts = descriptor >= 0 && descriptor < 1024 && written[descriptor].exchange(false);
  const bool bad = counts && fails();
  const int result = call(descriptor);
  if (bad) errno = EIO;
  return bad ? -1 : result;
}

int rename(const char* from, const char* to) noexcept {
  static auto* const call = true_one<int(const char*, const char*)>("rename");
  return fails() ? -1 : call(from, to);
}

int unlink(const char* path) noexcept {
  static auto* const call = true_one<int(const char*)>("unlink");
  return fails() ? -1 : call(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const call = true_one<int(const char*, mode_t)>("mkdir");
  return fails() ? -1 : call(path, mode);
}

int rmdir(const char* path) noexcept {
  static auto* const call = true_one<int(const char*)>("rmdir");
  return fails() ? -1 : call(path);
}

int clock_gettime(clockid_t clock, struct timespec* now) noexcept {
  static auto* const call = true_one<int(clockid_t, struct timespec*)>("clock_gettime");
  const int result = call(clock, now);
  if (clock == CLOCK_REALTIME && clock_readings >= 0) now->tv_sec -= 3600 * ++clock_readings;
  return result;
}

time_t time(time_t* now) noexcept {
  struct timespec read {};
  clock_gettime(CLOCK_REALTIME, &read);
  if (now != nullptr) *now = read.tv_sec;
  return read.tv_sec;
}

}  // extern "C"

namespace cdt::test {

FaultScope::FaultScope(int64_t at, Fault fault) {
  calls = 0;
  kind = fault;
  faulty = at;
}
FaultScope::~FaultScope() { faulty = 0; }
bool FaultScope::reached() const { return calls >= faulty; }

End work_apart(const std::function<void()>& work, int64_t at, Fault fault) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    End end = End::kOther;
    try {
      const FaultScope scope(at, fault);
      work();
      end = scope.reached() ? End::kWarned : End::kWell;
    } catch (const IoError&) {
      end = End::kRefused;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(static_cast<int>(end));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<End>(WEXITSTATUS(status)) : End::kOther;
}

bool work_apart(const std::function<void()>& work) {
  constexpr auto kNever = std::numeric_limits<int64_t>::max();
  return work_apart(work, kNever, Fault::kOnce) == End::kWell;
}

ClockScope::ClockScope() { clock_readings = 0; }
ClockScope::~ClockScope() { clock_readings = -1; }
int64_t ClockScope::readings() const { return clock_readings; }

}  // namespace cdt::test
