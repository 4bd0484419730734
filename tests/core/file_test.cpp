/// Whole files: what was written is read back, and a failed write leaves the old file alone.
#include "cdt/core/io/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "cdt/core/error.h"
#include "cdt/core/io/checksum.h"
#include "cdt/core/io/own_file.h"
#include "support/device.h"
#include "support/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using cdt::InvalidArgument;
using cdt::IoError;
using cdt::read_file;
using cdt::write_file_atomically;
using cdt::test::TempFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

/// Gives up root's right to write anything anywhere, for a scope.
class Unprivileged {
 public:
  Unprivileged() : was_root_(::geteuid() == 0) {
    if (was_root_) works_ = ::seteuid(65534) == 0;
  }
  ~Unprivileged() {
    if (was_root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }
  bool works() const { return works_; }

 private:
  bool was_root_;
  bool works_ = true;
};

/// Makes writes past `bytes` fail with EFBIG, for a scope: a full disk for any user.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_), 0);
    const rlimit limit{bytes, old_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int);
};

TEST(File, ReadsBackWhatWasWritten) {
  const TempFolder folder;
  const std::string zeros("a\0b\n", 4), large(1 << 20, 'x');
  write_file_atomically(folder / "f", {zeros, "", large, "end"});
  EXPECT_EQ(read_file(folder / "f"), zeros + large + "end");
  write_file_atomically(folder / "f", {"shorter"});
  EXPECT_EQ(read_file(folder / "f"), "shorter");
  write_file_atomically(folder / "f", {});
  EXPECT_EQ(read_file(folder / "f"), "");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f"));
}

TEST(File, ChecksumsAreThoseOfTheBytes) {
  const TempFolder folder;
  for (const size_t size : {size_t{0}, size_t{5}, (size_t{1} << 20) + 1}) {
    const std::string bytes(size, 'x');
    write_file_atomically(folder / "f", {bytes});
    EXPECT_EQ(cdt::checksum_of_file(folder / "f"), cdt::checksum(bytes));
  }
  EXPECT_EQ(cdt::checksum("a"), "af63dc4c8601ec8c");  // of FNV-1a's authors
  EXPECT_THROW(cdt::checksum_of_file(folder / "none"), InvalidArgument);
}

TEST(File, ReadsFilesThatReportNoSize) {
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Pid:"));
}

TEST(File, RefusesToReadWhatIsNoFile) {
  const TempFolder folder;
  EXPECT_THAT([&] { read_file(folder / "none"); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr((folder / "none").string()),
                                                   HasSubstr("No such file or directory"))));
  EXPECT_THAT([&] { read_file(folder.path()); },
              ThrowsMessage<InvalidArgument>(
                  AllOf(HasSubstr(folder.path().string()), HasSubstr("got a folder"))));
}

/// Without waiting for somebody who writes to the pipe, or for the end of a device that has none.
TEST(File, RefusesPipesAndDevicesWhereAFileIsExpected) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const fs::path& path : {folder / "pipe", fs::path("/dev/zero")}) {
    const auto refused = ThrowsMessage<InvalidArgument>(
        AllOf(HasSubstr(path.string()), HasSubstr("expected a regular file")));
    EXPECT_THAT([&] { cdt::read_regular_file(path); }, refused);
    EXPECT_THAT([&] { cdt::checksum_of_file(path); }, refused);
  }
  EXPECT_THAT([&] { cdt::read_regular_file(folder.path()); },
              ThrowsMessage<InvalidArgument>(HasSubstr("got a folder")));
  EXPECT_THAT([&] { cdt::read_regular_file(folder / "none"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("No such file")));
  write_file_atomically(folder / "f", {"text"});
  EXPECT_EQ(cdt::read_regular_file(folder / "f"), "text");
}

TEST(File, AReplacedFileKeepsItsMode) {
  const TempFolder folder;
  const mode_t mask = ::umask(022);
  for (const mode_t mode : {0600, 0640, 0666, 0744}) {
    for (const bool own : {false, true}) {
      const auto path = folder / "f";
      write_file_atomically(path, {"old"});
      ASSERT_EQ(::chmod(path.c_str(), mode), 0);
      own ? cdt::write_own_file(path, {"new"}) : write_file_atomically(path, {"new"});
      EXPECT_EQ(mode_of(path), mode) << own;
      EXPECT_EQ(read_file(path), "new");
    }
  }
  write_file_atomically(folder / "fresh", {"x"});
  EXPECT_EQ(mode_of(folder / "fresh"), mode_t{0644});
  cdt::write_own_file(folder / "private", {"x"}, 0600);
  EXPECT_EQ(mode_of(folder / "private"), mode_t{0600});
  ::umask(mask);
}

TEST(File, OursIsWrittenThroughNoLink) {
  const TempFolder folder;
  write_file_atomically(folder / "theirs", {"precious"});
  fs::create_symlink("theirs", folder / "ours");
  fs::create_symlink("nowhere", folder / "dangling");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* name : {"ours", "dangling", "pipe"}) {
    cdt::write_own_file(folder / name, {"x"});
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / name))) << name;
  }
  EXPECT_EQ(read_file(folder / "theirs"), "precious");
  EXPECT_FALSE(fs::exists(folder / "nowhere"));
  cdt::make_own_folder(folder / "d");
  cdt::make_own_folder(folder / "d");
  fs::create_directory_symlink("d", folder / "link");
  EXPECT_THAT([&] { cdt::make_own_folder(folder / "link"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("expected a folder, got a link")));
  EXPECT_THAT([&] { cdt::make_own_folder(folder / "theirs"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("got a file")));
}

TEST(File, RefusesToWriteWhereNoFileCanBe) {
  const TempFolder folder;
  write_file_atomically(folder / "f", {"x"});
  EXPECT_THAT([&] { write_file_atomically(folder / "none" / "g", {"x"}); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr((folder / "none/g").string()),
                                                   HasSubstr("No such file or directory"))));
  EXPECT_THAT([&] { write_file_atomically(folder / "f" / "g", {"x"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("Not a directory")));
  EXPECT_THAT([&] { write_file_atomically(folder.path(), {"x"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("got a folder")));
  EXPECT_THAT([&] { write_file_atomically(folder / "g/", {"x"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("expected the name of a file")));
  EXPECT_THAT([] { write_file_atomically("", {"x"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("expected the name of a file")));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f"));
}

TEST(File, TakesTheLongestNameThatAFolderTakes) {
  const TempFolder folder;
  const std::string name(255, 'n');
  write_file_atomically(folder / name, {"x"});
  EXPECT_EQ(read_file(folder / name), "x");
}

TEST(File, LeavesFilesAloneThatHaveATemporarysName) {
  const TempFolder folder;
  const auto taken = folder / (".cdt-" + std::to_string(::getpid()) + "-0.tmp");
  write_file_atomically(taken, {"mine"});
  write_file_atomically(folder / "f", {"x"});
  EXPECT_EQ(read_file(taken), "mine");
  EXPECT_EQ(read_file(folder / "f"), "x");
}

TEST(File, AFailedWriteLeavesTheOldFile) {
  const TempFolder folder;
  const auto path = folder / "f";
  write_file_atomically(path, {"old"});
  std::string message;
  {
    const FileSizeLimit limit(100);
    try {
      write_file_atomically(path, {"new", std::string(1000, 'x')});
    } catch (const IoError& error) {
      message = error.what();
    }
  }
  EXPECT_THAT(message, AllOf(HasSubstr(path.string()), HasSubstr("File too large")));
  EXPECT_EQ(read_file(path), "old");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f"));
}

TEST(File, AFolderThatCannotBeWrittenKeepsItsFiles) {
  const TempFolder folder;
  const auto path = folder / "f";
  write_file_atomically(path, {"old"});
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  {
    const Unprivileged user;
    if (!user.works()) GTEST_SKIP() << "cannot give up root's rights";
    for (const auto& name : {"f", "g"}) {
      EXPECT_THAT([&] { write_file_atomically(folder / name, {"new"}); },
                  ThrowsMessage<InvalidArgument>(HasSubstr("Permission denied")));
    }
    EXPECT_EQ(read_file(path), "old");
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
}

TEST(File, AReadOnlyFileIsNotReplaced) {
  const TempFolder folder;
  const auto path = folder / "f";
  write_file_atomically(path, {"old"});
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const Unprivileged user;
  if (!user.works()) GTEST_SKIP() << "cannot give up root's rights";
  EXPECT_THAT([&] { write_file_atomically(path, {"new"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("Permission denied")));
  EXPECT_EQ(read_file(path), "old");
}

TEST(File, TellsWhatIsThere) {
  const TempFolder folder;
  write_file_atomically(folder / "f", {"x"});
  EXPECT_TRUE(cdt::path_exists(folder / "f"));
  EXPECT_FALSE(cdt::path_exists(folder / "g"));
  EXPECT_FALSE(cdt::path_exists(folder / "f" / "g"));
  EXPECT_TRUE(cdt::folder_exists(folder.path()));
  EXPECT_FALSE(cdt::folder_exists(folder / "f"));
  const std::string endless(300, 'n');
  EXPECT_THAT([&] { cdt::path_exists(folder / endless); },
              ThrowsMessage<InvalidArgument>(HasSubstr("File name too long")));
  EXPECT_THAT([&] { cdt::make_folders(folder / endless / "run"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("File name too long")));
  ASSERT_EQ(::mkdir((folder / "closed").c_str(), 0), 0);
  const Unprivileged user;
  if (!user.works()) GTEST_SKIP() << "cannot give up root's rights";
  EXPECT_THAT([&] { cdt::folder_exists(folder / "closed/run"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("Permission denied")));
}

TEST(File, MakesFoldersAndRemovesFiles) {
  const TempFolder folder;
  cdt::make_folders(folder / "a/b/c/");
  EXPECT_TRUE(cdt::folder_exists(folder / "a/b/c"));
  cdt::make_folders(folder / "a/b");
  write_file_atomically(folder / "a/f", {"x"});
  EXPECT_THAT([&] { cdt::make_folders(folder / "a/f"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("expected a folder, got a file")));
  EXPECT_THAT([&] { cdt::make_folders(folder / "a/f/g"); },
              ThrowsMessage<InvalidArgument>(HasSubstr("a/f/g: Not a directory")));
  cdt::remove_file(folder / "a/f");
  cdt::remove_file(folder / "a/f");
  EXPECT_FALSE(cdt::path_exists(folder / "a/f"));
}

TEST(File, KnowsAFileByAllItsNames) {
  const TempFolder folder;
  write_file_atomically(folder / "f", {"x"});
  write_file_atomically(folder / "g", {"x"});
  fs::create_symlink("f", folder / "link");
  fs::create_hard_link(folder / "f", folder / "hard");
  for (const char* name : {"f", "./f", "link", "hard"}) {
    EXPECT_TRUE(cdt::is_same_file(folder / "f", folder / name)) << name;
  }
  EXPECT_FALSE(cdt::is_same_file(folder / "f", folder / "g"));
  EXPECT_FALSE(cdt::is_same_file(folder / "none", folder / "none"));
}

TEST(File, KeepsThePermissionsOfAnExistingFile) {
  const TempFolder folder;
  const mode_t umask = ::umask(027);
  write_file_atomically(folder / "f", {"x"});
  EXPECT_EQ(mode_of(folder / "f"), 0640u);
  for (const mode_t mode : {0600u, 0666u, 0755u}) {
    ASSERT_EQ(::chmod((folder / "f").c_str(), mode), 0);
    write_file_atomically(folder / "f", {"y"});
    EXPECT_EQ(mode_of(folder / "f"), mode);
  }
  ::umask(umask);
}

TEST(File, WritesThroughLinks) {
  const TempFolder folder;
  fs::create_directory(folder / "data");
  write_file_atomically(folder / "data/f", {"old"});
  fs::create_symlink("data/f", folder / "relative");
  fs::create_symlink(folder / "relative", folder / "chain");
  write_file_atomically(folder / "chain", {"new"});
  EXPECT_TRUE(fs::is_symlink(folder / "chain"));
  EXPECT_TRUE(fs::is_symlink(folder / "relative"));
  EXPECT_EQ(read_file(folder / "data/f"), "new");
  EXPECT_FALSE(fs::is_symlink(folder / "data/f"));

  fs::create_symlink("data/later", folder / "dangling");
  write_file_atomically(folder / "dangling", {"made"});
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(read_file(folder / "data/later"), "made");

  fs::create_symlink("cycle", folder / "cycle");
  EXPECT_THAT([&] { write_file_atomically(folder / "cycle", {"x"}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("Too many levels of symbolic links")));
}

TEST(File, DevicesAreFedNotReplaced) {
  const TempFolder folder;
  const std::string full = cdt::test::make_device(folder, "full");
  const std::string null = cdt::test::make_device(folder, "null");
  CDT_NEEDS_DEVICE(full);
  CDT_NEEDS_DEVICE(null);
  EXPECT_THAT([&] { write_file_atomically(full, {"x"}); },
              ThrowsMessage<IoError>(AllOf(HasSubstr(full), HasSubstr("No space left on device"))));
  EXPECT_NO_THROW(write_file_atomically(null, {"x"}));
  EXPECT_TRUE(fs::is_character_file(full));
  EXPECT_TRUE(fs::is_character_file(null));
}

TEST(File, PipesGetEveryByteThoughSignalsInterrupt) {
  const TempFolder folder;
  const auto path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  struct sigaction action {
  }, old{};
  action.sa_handler = [](int) {};  // And no SA_RESTART: write returns early.
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &old), 0);

  std::string sent(1 << 20, '\0'), received;
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * i >> 7);
  std::thread reader([&, writer = ::pthread_self()] {
    const int descriptor = ::open(path.c_str(), O_RDONLY);
    std::vector<char> buffer(3000);
    ssize_t count = 0;
    while ((count = ::read(descriptor, buffer.data(), buffer.size())) > 0) {
      received.append(buffer.data(), static_cast<size_t>(count));
      ::pthread_kill(writer, SIGUSR1);
    }
    ::close(descriptor);
  });
  write_file_atomically(path, {sent, "end"});
  reader.join();
  EXPECT_EQ(::sigaction(SIGUSR1, &old, nullptr), 0);
  EXPECT_TRUE(received == sent + "end") << received.size() << " bytes of " << sent.size() + 3;
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST(File, StandardOutputGoesOnAfterwards) {
  const TempFolder folder;
  write_file_atomically(folder / "log", {});
  std::fflush(stdout);
  const int saved = ::dup(STDOUT_FILENO);
  const int log = ::open((folder / "log").c_str(), O_WRONLY);
  ASSERT_GE(::dup2(log, STDOUT_FILENO), 0);
  const bool before = ::write(STDOUT_FILENO, "before ", 7) == 7;
  write_file_atomically("/dev/stdout", {"during", " "});
  const bool after = ::write(STDOUT_FILENO, "after", 5) == 5;
  ASSERT_GE(::dup2(saved, STDOUT_FILENO), 0);
  ::close(saved);
  ::close(log);
  EXPECT_TRUE(before && after);
  EXPECT_EQ(read_file(folder / "log"), "before during after");
}

TEST(File, ReadersSeeAWholeFileWhileWritersRace) {
  const TempFolder folder;
  const auto path = folder / "f";
  constexpr size_t kSize = 100000;
  write_file_atomically(path, {std::string(kSize, 'a')});
  std::atomic<int> running = 3;
  std::vector<std::thread> writers;
  for (const char letter : {'b', 'c', 'd'}) {
    writers.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i) {
        // Two pieces, so that a write in place would show.
        const std::string half(kSize / 2, letter);
        write_file_atomically(path, {half, half});
      }
      --running;
    });
  }
  while (running > 0) {
    const std::string content = read_file(path);
    EXPECT_EQ(content.size(), kSize);
    EXPECT_EQ(content.find_first_not_of(content[0]), std::string::npos);
  }
  for (auto& writer : writers) writer.join();
  EXPECT_THAT(names_in(folder.path()), ElementsAre("f"));
}

}  // namespace
