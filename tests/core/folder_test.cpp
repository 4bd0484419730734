/// Locks of folders, and updates that happen as a whole.
#include "cdt/core/folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "cdt/core/error.h"
#include "cdt/core/io/file.h"
#include "support/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using cdt::FolderLock;
using cdt::FolderUpdate;
using cdt::InvalidArgument;
using cdt::test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using testing::UnorderedElementsAre;

void put(const fs::path& path, const std::string& text) {
  cdt::write_file_atomically(path, {text});
}

std::set<std::string> entries_of(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// The number of a process that has been and is no more.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(FolderLock, NamesWhoHasTheFolder) {
  const TempFolder folder;
  EXPECT_EQ(cdt::lock_holder(folder.path()), "");
  {
    const FolderLock lock(folder.path());
    const std::string us = "process " + std::to_string(::getpid()) + " on ";
    EXPECT_THAT(cdt::lock_holder(folder.path()), HasSubstr(us));
    EXPECT_THAT([&] { FolderLock other(folder.path()); },
                ThrowsMessage<InvalidArgument>(
                    AllOf(HasSubstr(folder.path().string()), HasSubstr("is in use by " + us))));
  }
  EXPECT_EQ(cdt::lock_holder(folder.path()), "");
  EXPECT_NO_THROW(FolderLock again(folder.path()));
  EXPECT_THAT(entries_of(folder.path()), IsEmpty());
  EXPECT_THROW(FolderLock none(folder / "none"), InvalidArgument);
}

TEST(FolderLock, DiesWithItsProcess) {
  const TempFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    const bool told = ::write(ready[1], "x", 1) == 1;
    ::pause();
    ::_exit(told ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT([&] { FolderLock other(folder.path()); },
              ThrowsMessage<InvalidArgument>(HasSubstr("process " + std::to_string(child))));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  EXPECT_EQ(cdt::lock_holder(folder.path()), "");
  EXPECT_NO_THROW(FolderLock other(folder.path()));
}

TEST(FolderLock, ClearsUpAfterTheDead) {
  const TempFolder folder;
  const auto leftover = [&](pid_t pid) {
    return folder / (".cdt-" + std::to_string(pid) + "-0.tmp");
  };
  const fs::path dead = leftover(dead_process());
  const fs::path alive = leftover(::getppid());
  const fs::path old = leftover(::getpid());  // a number that came again
  const fs::path held = folder / ".cdt-1-1.tmp";
  const fs::path foreign = folder / ".cdt-notes.tmp";
  for (const fs::path& path : {dead, alive, old, held, foreign}) std::ofstream(path) << "x";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  fs::last_write_time(held, fs::file_time_type::clock::now() - std::chrono::hours(2));
  const int writer = ::open(held.c_str(), O_WRONLY);
  ASSERT_EQ(::flock(writer, LOCK_EX), 0);
  const FolderLock lock(folder.path());
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre(".cdt-lock", alive.filename(),
                                                              held.filename(), ".cdt-notes.tmp"));
  ::close(writer);
}

TEST(File, IsWrittenWithoutWhatTheDeadLeftBesideIt) {
  const TempFolder folder;
  const fs::path here = fs::current_path();
  for (const bool relative : {false, true}) {
    const std::string dead = ".cdt-" + std::to_string(dead_process()) + "-0.tmp";
    std::ofstream(folder / dead) << "x";
    if (relative) fs::current_path(folder.path());
    put(relative ? "f" : folder / "f", "x");
    fs::current_path(here);
    EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("f"));
  }
}

TEST(FolderUpdate, ChangesEverythingOrNothing) {
  const TempFolder folder;
  const FolderLock lock(folder.path());
  put(folder / "a", "old");
  put(folder / "b", "old");
  {
    const FolderUpdate given_up(lock);
    put(given_up / "a", "new");
    given_up.remove("b");
  }
  EXPECT_EQ(cdt::read_file(folder / "a"), "old");
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre(".cdt-lock", "a", "b"));
  FolderUpdate update(lock);
  put(update / "a", "new");
  put(update / "c", "new");
  update.remove("a");
  update.remove("b");
  update.remove(
      "none");  // a run names every file that it might find: those that are not there cost nothing
  EXPECT_THAT(entries_of(update.path()), UnorderedElementsAre("a", "c", "a.gone", "b.gone"));
  EXPECT_EQ(cdt::read_file(folder / "a"), "old");
  update.commit();
  EXPECT_EQ(cdt::read_file(folder / "a"), "new");
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre(".cdt-lock", "a", "c"));
}

TEST(FolderUpdate, IsFinishedByWhoComesNext) {
  for (const bool reader : {true, false}) {
    const TempFolder folder;
    put(folder / "a", "old");
    put(folder / "b", "old");
    fs::create_directory(folder / ".cdt-next");  // committed, and "c" has been moved already
    put(folder / ".cdt-next/a", "new");
    put(folder / ".cdt-next/b.gone", "");
    put(folder / "c", "new");
    fs::create_directory(folder / ".cdt-new");
    put(folder / ".cdt-new/a", "never committed");
    if (reader) {
      cdt::finish_update(folder.path());
    } else {
      const FolderLock lock(folder.path());
    }
    EXPECT_EQ(cdt::read_file(folder / "a"), "new");
    EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("a", "c"));
  }
}

/// A folder that came from elsewhere may hold links in the places of ours.
TEST(FolderUpdate, FollowsNoLinks) {
  const TempFolder others;
  put(others / "letter", "mine");
  const TempFolder folder;
  fs::create_directory_symlink(others.path(), folder / ".cdt-next");
  fs::create_directory_symlink(others.path(), folder / ".cdt-new");
  cdt::finish_update(folder.path());
  {
    const FolderLock lock(folder.path());
    FolderUpdate update(lock);
    put(update / "a", "new");
    EXPECT_THAT(entries_of(others.path()), UnorderedElementsAre("letter"));
  }
  fs::remove(folder / ".cdt-next");
  fs::create_symlink(others / "letter", folder / ".cdt-lock");
  EXPECT_THROW(FolderLock lock(folder.path()), InvalidArgument);
  EXPECT_EQ(cdt::lock_holder(folder.path()), "");
  EXPECT_EQ(cdt::read_file(others / "letter"), "mine");
  fs::remove(folder / ".cdt-lock");
  ASSERT_EQ(::mkfifo((folder / ".cdt-lock").c_str(), 0600), 0);
  EXPECT_EQ(cdt::lock_holder(folder.path()), "") << "and it does not wait";
}

TEST(FolderLock, WritesToNoFileOfAnotherName) {
  const TempFolder folder;
  put(folder / "mine", "precious");
  ASSERT_EQ(::link((folder / "mine").c_str(), (folder / ".cdt-lock").c_str()), 0);
  { const FolderLock lock(folder.path()); }
  EXPECT_EQ(cdt::read_file(folder / "mine"), "precious");
}

TEST(FolderUpdate, CommitsNothingThatAFolderIsInTheWayOf) {
  const TempFolder folder;
  put(folder / "a", "old");
  fs::create_directory(folder / "b");
  const FolderLock lock(folder.path());
  {
    FolderUpdate update(lock);
    put(update / "a", "new");
    put(update / "b", "new");
    EXPECT_THROW(update.commit(), InvalidArgument);
    EXPECT_THROW(update.remove("b"), InvalidArgument);
  }
  EXPECT_EQ(cdt::read_file(folder / "a"), "old");
  EXPECT_THAT(entries_of(folder.path()), UnorderedElementsAre("a", "b", ".cdt-lock"));
}

fs::perms permissions_of(const fs::path& path) { return fs::status(path).permissions(); }

TEST(FolderUpdate, RespectsPermissions) {
  const TempFolder folder;
  put(folder / "gone", "old");
  put(folder / "a", "old");
  fs::permissions(folder / "a", fs::perms(0640));
  fs::permissions(folder / "gone", fs::perms(0600));
  const FolderLock lock(folder.path());
  {
    FolderUpdate update(lock);
    EXPECT_EQ(permissions_of(update.path()), fs::perms(0700))
        << "closed to others while it is written";
    put(update / "a", "new");
    put(update / "new", "new");
    update.remove("gone");
    update.commit();
  }
  EXPECT_EQ(permissions_of(folder / "a"), fs::perms(0640));
  EXPECT_EQ(permissions_of(folder / "new") & fs::perms(0037), fs::perms::none)
      << "no wider than what was replaced with it";
  FolderUpdate update(lock);
  put(update / "gone", "again");
  update.commit();
  EXPECT_EQ(permissions_of(folder / "gone"), fs::perms(0600))
      << "as it was when the folder was locked";
}

}  // namespace
