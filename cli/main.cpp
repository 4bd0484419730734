// The program cdt: a table of commands, and one place where errors become exit codes.
#include <cdt/core/error.h>
#include <cdt/core/machine/memory.h>
#include <cdt/core/text/text.h>
#include <cdt/core/version.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/command.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace cdt::cli {
namespace {

constexpr std::array kCommands{
    Command{"analyze", "stability, reachability and margins before training", setup_analyze},
    Command{"compare", "methods × learning rates × seeds on a CSV file", setup_compare},
    Command{"data", "makes data sets, or describes a CSV file", setup_data},
    Command{"design", "kernel → feedback gain, with its certificate", setup_design},
    Command{"info", "versions, BLAS, threads, devices and their speed", setup_info},
    Command{"kernel", "the neural tangent kernel of a saved model as .npy", setup_kernel},
    Command{"predict", "a trained run and a CSV file, or pictures → predictions", setup_predict},
    Command{"report", "run folders, or a sweep → one HTML page with figures", setup_report},
    Command{"reproduce", "the paper's tables and figures beside the published values",
            setup_reproduce},
    Command{"train", "a CSV file, or pictures → a trained network, plainly or controlled",
            setup_train},
    Command{"verify", "is a run or a sweep as it was written?", setup_verify},
};

/// OpenMP's threads spin for a millisecond while they wait for each other. On a machine that others
/// use as well, that makes small matrix operations fifty times slower. A shorter spin is as fast on
/// a quiet one, and harmless. The library reads the number when it is loaded, so set it and start
/// anew.
void wait_without_spinning(char** argv) {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr ||
      (threads != nullptr && std::string_view(threads) == "1")) {
    return;
  }
  ::setenv("GOMP_SPINCOUNT", "3000", 1);
  ::execv("/proc/self/exe", argv);  // returns only if it fails, and then nothing is lost
}

/// Tensors come and go with every step. Memory that goes back to the system each time is cleared by
/// it each time: a tenth of a step of a wide network, or two.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

/// A closed pipe and a limit on file sizes then are errors of the write: a run that is kept goes
/// on, and what was written halfway is undone. As signals they would end it.
void let_writes_fail() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

/// The exit code of work that is done, unless its results did not reach standard output.
int written(int code) {
  if (std::cout.flush()) return code;
  if (output_is_closed()) end_unread();
  complain("cannot write to standard output");
  return code == 0 ? kFailed : code;
}

/// The program, its command, and the one within that, if there is one: cdt, data, make.
std::vector<const CLI::App*> chosen_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands{&app};
  while (!commands.back()->get_subcommands().empty()) {
    commands.push_back(commands.back()->get_subcommands().front());
  }
  return commands;
}

/// What no option takes, in the order of the command line; CLI11's own words have it backwards.
std::string unexpected(const CLI::App& app) {
  std::string text = "not expected:";
  for (const std::string& argument : app.remaining(/*recurse=*/true)) text += " " + argument;
  text += "\n";
  for (const CLI::App* command : chosen_commands(app)) text += command->get_name() + " ";
  return text + "--help lists the options";
}

/// LibTorch's "… you tried to allocate 40000000000 bytes. …" for people.
std::string memory_words(const std::string& text) {
  constexpr std::string_view kBefore = "tried to allocate ";
  const size_t at = text.find(kBefore);
  const std::string asked =
      at == std::string::npos
          ? ""
          : fmt::format(": {:.3g} GB were asked for at once",
                        std::strtod(text.c_str() + at + kBefore.size(), nullptr) / 1e9);
  return fmt::format("there is not enough memory{}; {:.3g} GB are left", asked,
                     static_cast<double>(available_memory()) / 1e9);
}

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') wait_without_spinning(argv);
  keep_freed_memory();
  let_writes_fail();
  end_on_signals();
  CLI::App app{
      "Controlled Descent Training: analyse a network's training before it starts, and steer it.",
      "cdt"};
  app.set_version_flag("--version", std::string("cdt ") + kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted.\n\n"
      "Example:\n"
      "  cdt train houses.csv --target price --out run1\n"
      "  cdt predict run1 new.csv --out prices.csv\n"
      "  cdt COMMAND --help");
  std::function<int()> chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->callback([&chosen, action = command.setup(*sub)] { chosen = action; });
  }
  check_whole_numbers(app);
  const auto named = [&](const Command& command) {
    return std::string_view(command.name) == argv[1];
  };
  if (argc > 1 && argv[1][0] != '-' && std::none_of(kCommands.begin(), kCommands.end(), named)) {
    complain(c10::str("there is no command '", argv[1], "'; cdt --help lists them"));
    return kWrongUsage;
  }
  try {
    auto arguments = expand_arguments(app, {argv + std::min(argc, 1), argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(arguments);
    require_distinct_files(*chosen_commands(app).back());
    return written(chosen());
  } catch (const CLI::ExtrasError&) {
    complain(unexpected(app));
    return kWrongUsage;
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, complaint;
    const int code = app.exit(error, help, complaint);
    std::cout << help.str();
    std::cerr << printable(complaint.str());
    return written(code == 0 ? 0 : kWrongUsage);
  } catch (const InvalidArgument& error) {
    complain(error.what());
    return kWrongUsage;
  } catch (const std::filesystem::filesystem_error& error) {
    complain(c10::str(error.path1().string(), ": ", error.code().message()));
    return kWrongUsage;
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    const bool memory = text.find("can't allocate memory") != std::string::npos;
    complain(memory ? memory_words(text) : text);
  } catch (const std::bad_alloc&) {
    complain(memory_words(""));
  } catch (const std::exception& error) {
    // A pipe by another name than standard output's: /dev/fd/3, /dev/stdout.
    if (std::string_view(error.what()).ends_with(std::generic_category().message(EPIPE))) {
      end_unread();
    }
    complain(error.what());
  }
  return kFailed;
}

}  // namespace
}  // namespace cdt::cli

int main(int argc, char** argv) { return cdt::cli::main(argc, argv); }
