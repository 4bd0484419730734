/// Whether a folder holds what was written to it.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cdt::run {

/// How one file of a folder was found.
struct FileCheck {
  enum class State {
    kIntact,     ///< its checksum is the one that was written down
    kUnchecked,  ///< it can be read, and has no checksum: an earlier version wrote it
    kDamaged,    ///< it cannot be read, or is another than was written
    kMissing,
  };
  std::string file;  ///< its name within the folder
  State state = State::kIntact;
  std::string note;  ///< what is wrong
};
std::string to_string(FileCheck::State state);

struct FolderCheck {
  std::string kind;      ///< "run" or "sweep"
  std::string version;   ///< of the program that wrote it, if that can be read
  std::string revision;  ///< its commit
  std::vector<FileCheck> files;
  std::vector<std::string> notes;  ///< another version, a process at work, no end yet

  /// Nothing is damaged or missing.
  bool sound() const;
  /// Notes a version other than this program's, and who is writing to the folder; where nobody
  /// does, how that goes on which has not ended (empty: it has).
  void add_notes(const std::filesystem::path& folder, const std::string& not_ended);
};

/// Reads all files of a run and compares their checksums with run.json; those without one must be
/// readable.
/// @throws InvalidArgument if the folder holds no run.
FolderCheck verify_run(const std::filesystem::path& folder);

}  // namespace cdt::run
