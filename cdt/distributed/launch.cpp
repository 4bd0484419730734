#include <cdt/core/error.h>
#include <cdt/distributed/group/place.h>
#include <cdt/distributed/launch.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

namespace cdt::distributed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{20};
/// Time limit of the other ranks, once rank 0 has ended.
constexpr std::chrono::seconds kAfterTheFirst{5};
constexpr std::array kHandedOn{SIGINT, SIGTERM, SIGHUP};

/// As in shells.
constexpr int kInterruptedCode = 128 + SIGINT;

/// Global, since a signal handler takes no arguments.
std::atomic<const std::vector<std::atomic<pid_t>>*> running{nullptr};
std::atomic<int> asked{0};  ///< last signal

/// Signals from the terminal reach the children directly; those sent by other processes arrive here
/// only. They are forwarded to one rank, which stops all: another rank may already have stopped,
/// and would die of the signal.
void hand_on(int signal, siginfo_t* info, void*) {
  asked = signal;
  const auto* children = running.load();
  if (children == nullptr || info->si_code > 0) return;
  for (const auto& child : *children) {
    if (const pid_t process = child.load(); process > 0) {
      ::kill(process, signal);
      return;
    }
  }
}

/// While it exists, forwards this process's signals to the first child.
class HandOn {
 public:
  explicit HandOn(const std::vector<std::atomic<pid_t>>& children) {
    running = &children;
    asked = 0;
    struct sigaction action {};
    action.sa_sigaction = hand_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (size_t i = 0; i < kHandedOn.size(); ++i) {
      ::sigaction(kHandedOn[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kHandedOn[i], &action, nullptr);
    }
  }
  ~HandOn() {
    for (size_t i = 0; i < kHandedOn.size(); ++i) {
      ::sigaction(kHandedOn[i], &before_[i], nullptr);
    }
    running = nullptr;
  }
  HandOn(const HandOn&) = delete;
  HandOn& operator=(const HandOn&) = delete;

 private:
  std::array<struct sigaction, kHandedOn.size()> before_;
};

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string each; std::getline(file, each, '\0');) arguments.push_back(each);
  return arguments;
}

/// The environment with the variables of the place.
std::vector<std::string> environment_of(const Place& place) {
  const std::vector<std::pair<std::string, std::string>> own{
      {"RANK", std::to_string(place.rank)},
      {"WORLD_SIZE", std::to_string(place.size)},
      {"LOCAL_WORLD_SIZE", std::to_string(place.local_size)},
      {"LOCAL_RANK", std::to_string(place.rank)},
      {"MASTER_ADDR", place.address},
      {"MASTER_PORT", std::to_string(place.port)},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {kStoreVariable, kStoreOfLauncher},
      {kSecretVariable, place.secret}};
  std::vector<std::string> all;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    const bool replaced =
        std::any_of(own.begin(), own.end(), [&](const auto& each) { return each.first == name; });
    if (!replaced) all.push_back(text);
  }
  for (const auto& [name, value] : own) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> found;
  for (std::string& text : texts) found.push_back(text.data());
  found.push_back(nullptr);
  return found;
}

pid_t start(const Place& place) {
  std::vector<std::string> arguments = own_arguments(), environment = environment_of(place);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  if (place.rank > 0) {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_addopen(&files, descriptor, "/dev/null", O_RDWR, 0);
    }
  }
  pid_t process = 0;
  const int failed = ::posix_spawn(&process, "/proc/self/exe", &files, nullptr,
                                   pointers(arguments).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    throw IoError(c10::str("worker ", place.rank, " cannot be started: ", std::strerror(failed)));
  }
  return process;
}

}  // namespace

int launch(const LaunchOptions& options) {
  const Meeting meeting;
  std::vector<std::atomic<pid_t>> children(static_cast<size_t>(options.workers));
  const HandOn hand_on_signals(children);
  const auto kill_all = [&] {
    for (auto& child : children) {
      if (const pid_t process = child.exchange(0); process > 0) {
        ::kill(process, SIGKILL);
        ::waitpid(process, nullptr, 0);
      }
    }
  };
  try {
    for (int64_t k = 0; k < options.workers; ++k) {
      children[static_cast<size_t>(k)] = start({k, options.workers, "127.0.0.1", meeting.port(),
                                                true, options.workers, k, meeting.secret()});
    }
  } catch (...) {
    kill_all();
    throw;
  }
  if (asked != 0) ::kill(children[0], asked);  // the signal may have come before there was a child
  int code = 1;
  std::optional<Clock::time_point> deadline;
  const auto at_most = [&](std::chrono::milliseconds left) {
    deadline = std::min(deadline.value_or(Clock::time_point::max()), Clock::now() + left);
  };
  for (size_t left = children.size(); left > 0; std::this_thread::sleep_for(kLook)) {
    for (size_t k = 0; k < children.size(); ++k) {
      int status = 0;
      const pid_t process = children[k];
      if (process == 0 || ::waitpid(process, &status, WNOHANG) != process) continue;
      children[k] = 0;
      --left;
      // It was still starting and could not handle the signal, and so were the others.
      const bool died_of_it = WIFSIGNALED(status) && WTERMSIG(status) == asked;
      if (WIFSIGNALED(status) && !died_of_it) {
        options.complain(c10::str("rank ", k, " was killed by signal ", WTERMSIG(status), " (",
                                  ::strsignal(WTERMSIG(status)), ")"));
      }
      if (k == 0) {
        code = WIFEXITED(status) ? WEXITSTATUS(status) : died_of_it ? kInterruptedCode : 1;
        at_most(died_of_it ? std::chrono::seconds(0) : kAfterTheFirst);
      } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        at_most(options.grace);
      }
    }
    if (deadline && Clock::now() >= *deadline) {
      kill_all();
      break;
    }
  }
  return code;
}

}  // namespace cdt::distributed
