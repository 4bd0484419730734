// Output of text, JSON and progress.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/text/text.h>
#include <cdt/core/text/wrap.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
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
  const std::string shown = isatty(STDOUT_FILENO) == 1 ? wrap(printable(text), 2) : printable(text);
  if (kept) {
    std::cout << shown << std::flush;  // main checks the stream at the end
  } else {
    print(shown);
  }
}

void complain(const std::string& text) {
  const std::string shown = "cdt: " + printable(text);
  std::cerr << (isatty(STDERR_FILENO) == 1 ? wrap(shown, 2) : shown) + "\n";
}
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
    const bool may_end = total < 0;
    const bool finished = done == total;
    if (seconds < 1 || (!finished && seconds - *last < interval) || (finished && *last == 0))
      return;
    *last = seconds;
    const double share = static_cast<double>(done) / std::abs(static_cast<double>(total));
    std::string line = what + (may_end ? ": " : fmt::format(" {:3.0f} %  ", 100 * share));
    if (!detail.empty()) line += printable(detail) + "  ";
    const double rate = static_cast<double>(done) / seconds;
    line += fmt::format("{:.{}f} {}/s", rate, rate < 100 ? 1 : 0, unit);
    if (done > 0 && !finished) {
      line += fmt::format("  {}{:.0f} s left", may_end ? "≤ " : "", seconds * (1 - share) / share);
    }
    // A bar in the rest of the line.
    const size_t room = kColumns - std::min(kColumns, printed_width(line) + 4);
    if (terminal && !may_end && room > 4) {
      const size_t width = std::min<size_t>(30, room);
      const auto filled = static_cast<size_t>(share * static_cast<double>(width));
      line = fmt::format("[{}{}] {}", std::string(filled, '#'), std::string(width - filled, '.'),
                         line);
    }
    std::fputs((terminal ? "\r" + line + "\033[K" + (finished ? "\n" : "") : line + "\n").c_str(),
               stderr);
  };
}

}  // namespace cdt::cli
