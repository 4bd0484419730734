/// Device nodes of a test's own: a mistake in what writes files then costs no node of the system.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>

#include "support/temp_folder.h"

namespace cdt::test {

/// A node in `folder` that answers like /dev/full, where every write finds the disk full, or like
/// /dev/null. Empty where devices cannot be made (that needs root) or not be opened.
inline std::string make_device(const TempFolder& folder, const std::string& name) {
  const std::string path = (folder / name).string();
  const unsigned minor_number = name == "null" ? 3 : 7;
  if (::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, minor_number)) != 0) return "";
  const int file = ::open(path.c_str(), O_WRONLY);
  if (file < 0) {
    ::unlink(path.c_str());
    return "";
  }
  ::close(file);
  return path;
}

}  // namespace cdt::test

/// Skips the rest of a test whose device could not be made.
#define CDT_NEEDS_DEVICE(path) \
  if ((path).empty()) GTEST_SKIP() << "device nodes of our own cannot be made here"
