/// Private device nodes for tests, so that an error in code that writes files damages no system
/// node.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>

#include "support/temp_folder.h"

namespace cdt::test {

/// A node in `folder` that behaves like /dev/full, where every write fails with a full disk, or
/// like /dev/null. Empty if devices cannot be made (which needs root) or opened.
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
