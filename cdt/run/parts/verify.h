/// Verifies that a folder holds what was written to it.
#pragma once

#include <cdt/core/error.h>

#include <filesystem>
#include <string>
#include <vector>

namespace cdt::run {

/// State of one file of a folder.
struct FileCheck {
  enum class State {
    kIntact,     ///< matches its recorded checksum
    kUnchecked,  ///< readable, without checksum: from an earlier version
    kDamaged,    ///< unreadable, or differs from what was written
    kMissing,
  };
  std::string file;  ///< name within the folder
  State state = State::kIntact;
  std::string note;  ///< what is wrong
};
std::string to_string(FileCheck::State state);

struct FolderCheck {
  std::string kind;      ///< "run" or "sweep"
  std::string version;   ///< version of the program that wrote it, if readable
  std::string revision;  ///< its commit
  std::vector<FileCheck> files;
  std::vector<std::string> notes;  ///< another version, an active process, an unfinished run

  /// Whether nothing is damaged or missing.
  bool sound() const;
  /// Adds notes about a version other than this program's, and about a process that is writing to
  /// the folder; if there is none, `not_ended` says how to continue an unfinished run (empty: it
  /// has finished).
  void add_notes(const std::filesystem::path& folder, const std::string& not_ended);
};

/// Reads all files of a run and compares their checksums with run.json; files without one must be
/// readable.
/// @throws InvalidArgument if the folder holds no run.
FolderCheck verify_run(const std::filesystem::path& folder);

}  // namespace cdt::run
