// The program cdt: the table of commands, and the conversion of errors to exit codes.
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
#include "cli/help.h"
#include "cli/suggest.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace cdt::cli {
namespace {

constexpr std::array kCommands{
    Command{"analyze", "stability, reachability and margins before training", setup_analyze},
    Command{"compare", "methods × learning rates × seeds on a CSV file", setup_compare},
    Command{"completion", "completion of commands and options for bash, zsh or fish",
            setup_completion},
    Command{"data", "makes data sets, or describes a CSV file", setup_data},
    Command{"design", "the feedback gain of a kernel, with its certificate", setup_design},
    Command{"info", "versions, BLAS, threads, devices and their speed", setup_info},
    Command{"kernel", "the neural tangent kernel of a saved model as .npy", setup_kernel},
    Command{"predict", "predictions of a trained run for a CSV file, arrays or pictures",
            setup_predict},
    Command{"report", "one HTML page with figures, of runs or of a sweep", setup_report},
    Command{"reproduce", "the paper's tables and figures beside the published values",
            setup_reproduce},
    Command{"train", "trains a network on a CSV file, arrays or pictures", setup_train},
    Command{"verify", "checks that a run or a sweep is as it was written", setup_verify},
};

/// OpenMP's threads spin for a millisecond while they wait for each other. On a busy machine that
/// makes small matrix operations fifty times slower. A shorter spin is as fast on an idle machine.
/// The library reads the setting when it is loaded, so set it and restart the program.
void wait_without_spinning(char** argv) {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr ||
      (threads != nullptr && std::string_view(threads) == "1")) {
    return;
  }
  ::setenv("GOMP_SPINCOUNT", "3000", 1);
  ::execv("/proc/self/exe", argv);  // returns only on failure, which is harmless
}

/// Every step allocates and frees tensors. Memory returned to the system is cleared each time it is
/// allocated again, which takes a tenth or two of a step of a wide network.
void keep_freed_memory() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

/// Makes a closed pipe and a limit on file sizes write errors instead of signals, so that a run
/// kept in a folder continues and partial output is undone.
void let_writes_fail() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

/// The exit code of finished work, unless writing its results to standard output failed.
int written(int code) {
  if (std::cout.flush()) return code;
  if (output_is_closed()) end_unread();
  complain("cannot write to standard output");
  return code == 0 ? kFailed : code;
}

/// The program, its command and its subcommand, if any: cdt, data, make.
std::vector<const CLI::App*> chosen_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands{&app};
  while (!commands.back()->get_subcommands().empty()) {
    commands.push_back(commands.back()->get_subcommands().front());
  }
  return commands;
}

/// "cdt train --help lists the options"
std::string where_help_is(const CLI::App& app) {
  std::string text;
  for (const CLI::App* command : chosen_commands(app)) text += command->get_name() + " ";
  return text + "--help lists the " + (text == "cdt " ? "commands" : "options");
}

/// Arguments that no option accepts, in the order of the command line; CLI11's message reverses
/// them.
std::string unexpected(const CLI::App& app) {
  std::string text = "not expected:", hint;
  for (const std::string& argument : app.remaining(/*recurse=*/true)) {
    text += " " + argument;
    if (!hint.empty() || !argument.starts_with("-")) continue;
    const size_t name = argument.find_first_not_of('-');
    if (name == std::string::npos) continue;
    hint =
        option_hint(*chosen_commands(app).back(), argument.substr(name, argument.find('=') - name));
  }
  return text + hint + "\n" + where_help_is(app);
}

/// The error message for an unknown command; "" if all commands exist.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* parent = &app;
  std::string path = "cdt";
  for (const std::string& name : arguments) {
    const auto children = parent->get_subcommands([](const CLI::App*) { return true; });
    if (children.empty() || name.starts_with("-")) return "";
    const auto found = std::ranges::find(children, name, &CLI::App::get_name);
    if (found == children.end()) {
      return c10::str("there is no command '", path == "cdt" ? "" : path.substr(4) + " ", name, "'",
                      command_hint(*parent, name), "\n", path, " --help lists them");
    }
    parent = *found;
    path += " " + name;
  }
  return "";
}

constexpr const char* kTour =
    "Controlled Descent Training: expected a command. A tour:\n"
    "  cdt data make houses.csv                    a table to try: houses and prices\n"
    "  cdt train houses.csv --target price         learn it; the run is kept in run1\n"
    "  cdt predict run1 houses.csv --out p.csv     predict new rows\n"
    "  cdt analyze houses.csv --target price       will training be stable?\n"
    "  cdt --help                                  all commands\n";

/// Shortens LibTorch's "… you tried to allocate 40000000000 bytes. …".
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
  std::function<int()> chosen;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    add_help(*sub);
    sub->callback([&chosen, action = command.setup(*sub)] { chosen = action; });
  }
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted.\n\n"
      "Example:\n"
      "  cdt train houses.csv --target price --out run1\n"
      "  cdt predict run1 new.csv --out prices.csv\n"
      "  cdt COMMAND --help");
  check_whole_numbers(app);
  if (argc < 2) {
    std::cerr << kTour;
    return kWrongUsage;
  }
  const std::string unknown = unknown_command(app, {argv + 1, argv + argc});
  if (!unknown.empty()) {
    complain(unknown);
    return kWrongUsage;
  }
  try {
    auto arguments = expand_arguments(app, {argv + std::min(argc, 1), argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
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
    if (code != 0) complain(error.what() + ("\n" + where_help_is(app)));
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
    // A closed pipe under another name of standard output: /dev/fd/3, /dev/stdout.
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
