// cdt verify: checks that a run or a sweep is unchanged since it was written.
#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/experiment/parts/verify.h>
#include <cdt/run/folder.h>
#include <fmt/format.h>

#include "cli/command.h"

namespace cdt::cli {
namespace {

struct VerifyCommand {
  std::string folder;
  OutputOptions output;
};

int run_verify(const VerifyCommand& options) {
  const bool sweep = experiment::holds_sweep(options.folder);
  CDT_REQUIRE(sweep || run::RunFolder(options.folder).holds_run(), options.folder,
              ": expected the folder of a run or a sweep, but it has neither run.json nor "
              "sweep.json");
  const run::FolderCheck found =
      sweep ? experiment::verify_sweep(options.folder) : run::verify_run(options.folder);
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  std::string text = fmt::format("{}: a {}, {}\n", options.folder, found.kind,
                                 found.sound() ? "intact" : "NOT INTACT");
  int64_t runs = 0;  // in a sweep: one line for all intact runs
  for (const run::FileCheck& each : found.files) {
    files.push_back({{"file", each.file}, {"state", to_string(each.state)}, {"note", each.note}});
    if (each.file.starts_with("runs/") && each.state == run::FileCheck::State::kIntact) {
      ++runs;
      continue;
    }
    text += fmt::format("  {:<22}  {}\n", each.file, to_string(each.state));
    if (!each.note.empty()) text += fmt::format("    {}\n", each.note);
  }
  if (runs > 0) text += fmt::format("  {:<22}  {} intact\n", "runs/", runs);
  for (const std::string& note : found.notes) text += fmt::format("  • {}\n", note);
  options.output.text(text);
  options.output.write_json(dump_readably({{"folder", options.folder},
                                           {"kind", found.kind},
                                           {"version", found.version},
                                           {"revision", found.revision},
                                           {"intact", found.sound()},
                                           {"files", files},
                                           {"notes", found.notes}}));
  return found.sound() ? 0 : kFailed;
}

}  // namespace

std::function<int()> setup_verify(CLI::App& app) {
  auto options = std::make_shared<VerifyCommand>();
  app.add_option("DIR", options->folder, "a folder that cdt train, compare or reproduce wrote")
      ->required();
  options->output.add_to(app);
  app.footer(
      "Exit code 0: every file is as it was written. 1: something is damaged or missing.\n\n"
      "Example:\n  cdt verify run1");
  return [options] { return run_verify(*options); };
}

}  // namespace cdt::cli
