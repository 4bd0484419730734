// Where text, JSON and progress go.
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/text/text.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "cli/command.h"

namespace cdt::cli {

void OutputOptions::add_to(CLI::App& app) {
  app.add_option("--json", json, "write the results as JSON to this file; - for standard output")
      ->type_name(kOutputFile);
  app.add_flag("--quiet", quiet, "no text for people");
  app.add_option("--config", config,
                 "options from a TOML file, by their names (and file = \"…\"); flags win")
      ->type_name(kInputFile);
}

bool output_is_closed() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

void end_unread() { ::_exit(128 + SIGPIPE); }

void print(const std::string& text) {
  if (std::cout << text << std::flush) return;
  if (output_is_closed()) end_unread();
  throw IoError("cannot write to standard output");
}

void OutputOptions::text(const std::string& text) const {
  if (quiet || json == "-") return;
  if (kept) {
    std::cout << printable(text) << std::flush;  // main looks at it in the end
  } else {
    print(printable(text));
  }
}

void complain(const std::string& text) { std::cerr << "cdt: " + printable(text) + "\n"; }
void warn(const std::string& text) { complain("warning: " + text); }

void OutputOptions::write_json(const std::string& json_text) const {
  if (json == "-") {
    print((isatty(STDOUT_FILENO) == 1 ? printable(json_text) : json_text) + "\n");
  } else if (!json.empty()) {
    write_file_atomically(json, {json_text, "\n"});
  }
}

Progress progress(const std::string& what, const std::string& unit, bool quiet) {
  using Clock = std::chrono::steady_clock;
  if (quiet) return [](int64_t, int64_t, const std::string&) {};
  const auto start = Clock::now();
  auto last = std::make_shared<double>(0);
  const bool terminal = isatty(STDERR_FILENO) == 1;
  return [=](int64_t done, int64_t total, const std::string& detail) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double interval = terminal ? 0.2 : 10.0;
    if (total == kNoEnd) {
      if (seconds < 1 || seconds - *last < interval) return;
      *last = seconds;
      const std::string line = fmt::format("{}: {}  {:.1f} {}/s", what, printable(detail),
                                           static_cast<double>(done) / seconds, unit);
      std::fputs((terminal ? "\r" + line + "\033[K" : line + "\n").c_str(), stderr);
      return;
    }
    const bool finished = done == total;
    if (seconds < 1 || (!finished && seconds - *last < interval) || (finished && *last == 0))
      return;
    *last = seconds;
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const std::string left =
        done > 0 ? fmt::format("  {:.0f} s left", seconds * (1 - share) / share) : "";
    const std::string line = fmt::format("{} {:3.0f} %  {}{:.1f} {}/s{}", what, 100 * share,
                                         detail.empty() ? "" : printable(detail) + "  ",
                                         static_cast<double>(done) / seconds, unit, left);
    if (terminal) {
      constexpr int kWidth = 30;
      const int filled = static_cast<int>(share * kWidth);
      std::fputs(fmt::format("\r[{}{}] {}\033[K{}", std::string(filled, '#'),
                             std::string(kWidth - filled, '.'), line, finished ? "\n" : "")
                     .c_str(),
                 stderr);
    } else {
      std::fputs((line + "\n").c_str(), stderr);
    }
  };
}

}  // namespace cdt::cli
