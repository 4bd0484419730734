#include "cli/browser.h"

#include <cdt/core/io/file.h>
#include <cdt/core/io/own_file.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cdt::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::chrono::seconds kTimeLimit{60};

/// A temporary browser profile, so that the user's own is not changed.
class Profile {
 public:
  Profile() {
    path_ = (fs::temp_directory_path() / "cdt-report-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) {
      throw std::runtime_error(fmt::format("cannot create {}: {}", path_, std::strerror(errno)));
    }
  }
  ~Profile() {
    // Not std::filesystem::remove_all: LibTorch's wheels export a broken copy of it.
    ::nftw(
        path_.c_str(),
        [](const char* name, const struct stat*, int, struct FTW*) { return ::remove(name); }, 16,
        FTW_DEPTH | FTW_PHYS);
  }
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// file:///…, percent-encoded except for plain characters.
std::string to_url(const fs::path& path) {
  std::string url = "file://";
  for (const unsigned char c : fs::absolute(path).string()) {
    const bool plain = std::isalnum(c) || c == '/' || c == '-' || c == '_' || c == '.';
    url += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return url;
}

/// Starts the program without a shell, in its own process group, waits, and kills the group on
/// timeout. Returns the exit code.
int run_program(std::vector<std::string> arguments, const fs::path& log) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    throw std::runtime_error(
        fmt::format("cannot start {}: {}", arguments[0], std::strerror(error)));
  }
  const auto end = std::chrono::steady_clock::now() + kTimeLimit;
  for (;;) {
    int status = 0;
    const pid_t done = ::waitpid(pid, &status, WNOHANG);
    if (done == pid) {
      ::kill(-pid, SIGKILL);  // helper processes that it may have left
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (std::chrono::steady_clock::now() > end) {
      ::kill(-pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      throw std::runtime_error(
          fmt::format("{} took longer than {} seconds", arguments[0], kTimeLimit.count()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

fs::path find_browser() {
  const char* path = std::getenv("PATH");
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      fs::path program = fs::path(folder.empty() ? "." : folder) / name;
      if (::access(program.c_str(), X_OK) == 0 && fs::is_regular_file(program)) return program;
    }
  }
  throw std::runtime_error(
      "--png needs a browser to draw the figures, and none of chromium, chromium-browser and "
      "google-chrome was found; Debian's package is chromium");
}

void take_picture(const fs::path& browser, const fs::path& page, const std::string& fragment,
                  int width, int height, const fs::path& picture) {
  const Profile profile;
  const fs::path log = fs::path(profile.path()) / "log.txt";
  const fs::path made = fs::path(profile.path()) / "picture.png";
  std::vector<std::string> arguments{browser.string(),
                                     "--headless",
                                     "--disable-gpu",
                                     "--hide-scrollbars",
                                     "--no-first-run",
                                     "--disable-extensions",
                                     "--disable-background-networking",
                                     "--disable-dev-shm-usage",
                                     "--force-device-scale-factor=2",
                                     "--virtual-time-budget=3000",
                                     "--user-data-dir=" + profile.path(),
                                     fmt::format("--window-size={},{}", width, height),
                                     "--screenshot=" + made.string()};
  // Chromium refuses to start its sandbox for root.
  if (::geteuid() == 0) arguments.emplace_back("--no-sandbox");
  arguments.push_back(to_url(page) + "#" + fragment);
  const int code = run_program(arguments, log);
  if (code != 0 || !fs::exists(made)) {
    throw std::runtime_error(fmt::format("{} made no picture of {} (exit code {})",
                                         browser.string(), page.string(), code));
  }
  write_own_file(picture, {read_regular_file(made)});
}

}  // namespace cdt::cli
