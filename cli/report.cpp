// cdt report: folders of runs, or of a sweep → one self-contained HTML page.
#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/own_file.h>
#include <cdt/experiment/results_file.h>
#include <cdt/report/run_page.h>
#include <cdt/run/parts/tables.h>
#include <fmt/format.h>

#include "cli/browser.h"
#include "cli/command.h"

namespace cdt::cli {
namespace {

namespace fs = std::filesystem;

struct ReportCommand {
  std::vector<std::string> folders;
  std::string out;
  bool png = false;
  OutputOptions output;
};

bool is_sweep(const fs::path& folder) { return path_exists(folder / "results.json"); }

report::Page page_of(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    CDT_REQUIRE(folders.size() == 1 || !is_sweep(folder), folder.string(),
                ": is a sweep, which has a report of its own; several folders must be runs");
  }
  return is_sweep(folders[0]) ? report::sweep_page(experiment::read_results(folders[0]))
                              : report::run_page(run::read_records(folders));
}

int run_report(const ReportCommand& options) {
  const std::vector<fs::path> folders(options.folders.begin(), options.folders.end());
  const fs::path out = !options.out.empty()  ? fs::path(options.out)
                       : folders.size() == 1 ? folders[0] / "report.html"
                                             : fs::path("report.html");
  const report::Page page = page_of(folders);
  const fs::path browser = options.png ? find_browser() : fs::path();
  const std::string html = report::to_html(page);
  if (options.out.empty()) {
    write_own_file(out, {html});
  } else {
    write_file_atomically(out, {html});
  }
  options.output.text(fmt::format("{}: {} kB\n", out.string(), (html.size() + 1023) / 1024));
  nlohmann::ordered_json json{{"report", out.string()},
                              {"pictures", nlohmann::ordered_json::array()}};
  if (options.png) {
    constexpr int kWidth = 1000;
    constexpr int kHeight = 700;
    for (const report::Section& section : page.sections) {
      for (const report::Figure& figure : section.figures) {
        const fs::path picture = out.parent_path() / (figure.id + ".png");
        take_picture(browser, out, "figure=" + figure.id, kWidth, kHeight, picture);
        options.output.text(picture.string() + "\n");
        json["pictures"].push_back(picture.string());
      }
    }
  }
  options.output.write_json(dump_readably(json));
  return 0;
}

}  // namespace

std::function<int()> setup_report(CLI::App& app) {
  auto options = std::make_shared<ReportCommand>();
  app.add_option("DIR", options->folders,
                 "a folder that cdt train wrote, or several to compare; or the folder of a sweep")
      ->required();
  app.add_option("--out", options->out,
                 "the page; default: report.html in DIR, or here if there are several")
      ->type_name(kOutputFile);
  app.add_flag("--png", options->png,
               "each figure as a picture too, beside the page; needs Chromium");
  options->output.add_to(app);
  app.footer(
      "Examples:\n"
      "  cdt report run1\n"
      "  cdt report gd cdt guarded --out comparison.html --png");
  return [options] { return run_report(*options); };
}

}  // namespace cdt::cli
