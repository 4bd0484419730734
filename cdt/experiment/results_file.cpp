#include <cdt/core/folder.h>
#include <cdt/core/io/checksum.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/core/io/seal.h>
#include <cdt/core/version.h>
#include <cdt/experiment/parts/figures.h>
#include <cdt/experiment/results_file.h>
#include <cdt/experiment/tables.h>
#include <cdt/run/parts/json_fields.h>
#include <fmt/format.h>

namespace cdt::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Name of the loss whose values are not squares.
constexpr const char* kCrossEntropy = "cross-entropy";

report::SweepTableRow table_row(const Row& row) {
  const auto runs = static_cast<int64_t>(row.runs.size());
  report::SweepTableRow shown;
  shown.architecture = row.architecture;
  if (runs > 0) shown.shape = row.runs.front()->shape;
  shown.lr = row.lr;
  shown.own_rate = row.own_rate();
  shown.method = row.method;
  if (!predicts(row.method)) {  // not defined without a single kernel
    shown.reachable = row.reachable == runs;
    shown.reachable_runs = row.reachable;
    shown.strictly_contracting = row.strictly_contracting == runs;
    shown.strictly_contracting_runs = row.strictly_contracting;
  }
  shown.converged = row.converged;
  shown.runs = runs;
  shown.validation = {row.val_mean, row.val_std};
  shown.errors = row.errors;
  shown.train_mean = row.train_mean;
  shown.seconds = row.seconds;
  shown.published = row.published;
  shown.difference = row.difference();
  return shown;
}

std::vector<report::TitledText> preflights(const Plan& plan, const std::vector<CaseRun>& runs) {
  std::vector<report::TitledText> list;
  for (const Architecture& each : plan.architectures) {
    for (const CaseRun& run : runs) {
      if (!run.what.details || run.what.architecture != each.name) continue;
      list.push_back({fmt::format("architecture {}", each.name),
                      fmt::format("Network {}, learning rate {:g}, seed {}\n\n{}", run.shape,
                                  run.lr, run.what.seed, run.preflight)});
    }
  }
  return list;
}

/// The machine of the last call that executed runs, and the largest number of runs trained as one.
ordered_json describe_machine(const Sweep& sweep) {
  if (sweep.sessions.empty()) return nullptr;
  const Session& last = sweep.sessions.back();
  ordered_json machine{{"device", last.device},
                       {"jobs", last.jobs},
                       {"threads_per_run", 1},
                       {"libtorch", last.libtorch},
                       {"gemm_gflops", last.gemm_gflops}};
  int64_t together = 1;
  for (const CaseRun& run : sweep.runs) together = std::max(together, run.together);
  if (together > 1) machine["runs_together"] = together;
  return machine;
}

/// Total over all calls.
ordered_json describe_timings(const Sweep& sweep) {
  double training = 0;
  for (const CaseRun& run : sweep.runs) training += run.seconds;
  double wall = 0;
  double floor = 0;
  for (const Session& session : sweep.sessions) {
    wall += session.wall_seconds;
    if (session.gemm_gflops > 0) floor += session.gflop / session.gemm_gflops;
  }
  return {{"runs", sweep.runs.size()},
          {"training_seconds", training},
          {"sessions", sweep.sessions.size()},
          {"wall_seconds", wall},
          {"floor_seconds", floor},
          {"share_of_gemm_rate", floor / wall},
          {"runs_made_now", sweep.made}};
}

/// Nothing if it is missing.
template <class T>
void read_part(const JsonValue& part, T& value) {
  if (part.exists()) value = from_json_value<T>(part);
}

}  // namespace

std::string to_json(const Results& results, const std::map<std::string, std::string>& files) {
  const Plan& plan = results.plan;
  const Sweep& sweep = results.sweep;
  std::vector<report::SweepTableRow> rows;
  for (const Row& row : results.rows) rows.push_back(table_row(row));
  std::vector<report::Setting> settings = plan.settings;
  std::erase_if(settings, [](const report::Setting& each) { return each.value.empty(); });
  ordered_json content{{"format", "cdt-results-1"},
                       {"version", kVersion},
                       {"revision", kRevision},
                       {"kind", plan.kind},
                       {"title", plan.title},
                       {"complete", sweep.complete},
                       {"summary", results.summary},
                       {"data",
                        {{"file", fs::path(plan.data.file).filename().string()},
                         {"checksum", sweep.checksum},
                         {"rows", sweep.table_rows}}},
                       {"settings", to_json_value(settings)},
                       {"machine", describe_machine(sweep)},
                       {"timings", describe_timings(sweep)},
                       {"rows", to_json_value(rows)},
                       {"claims", to_json_value(results.claims)},
                       {"preflight", to_json_value(preflights(plan, sweep.runs))}};
  if (plan.loss->classes()) content["loss"] = kCrossEntropy;
  if (!files.empty()) content["files"] = files;
  return sealed(dump_readably(content));
}

std::string write_results(const fs::path& folder, const Results& results) {
  const Plan& plan = results.plan;
  report::SweepRecord record = parse_results(to_json(results), "results.json");
  record.figures = draw_figures(plan, results.rows, results.sweep.runs);
  const std::map<std::string, std::string> texts{
      {"results.csv", to_csv(results.rows, results.csv_safe)},
      {"results.md", to_markdown(plan.title, results.rows, results.claims)},
      {"figures.json", report::to_json(record.figures) + "\n"}};
  std::map<std::string, std::string> checksums;
  for (const auto& [name, text] : texts) checksums[name] = cdt::checksum(text);
  std::string json = to_json(results, checksums);
  const FolderLock lock(folder);
  FolderUpdate update(lock);
  for (const auto& [name, text] : texts) write_file_atomically(update / name, {text});
  write_file_atomically(update / "results.json", {json, "\n"});
  if (report::has_charts()) {
    write_file_atomically(update / "report.html", {report::to_html(report::sweep_page(record))});
  }
  update.commit();
  return json;
}

report::SweepRecord parse_results(const std::string& json, const std::string& source) {
  const JsonValue results = parse_json(json, source);
  results.require_format("cdt-results-1");
  report::SweepRecord record;
  read_part(results["rows"], record.rows);
  CDT_REQUIRE(!record.rows.empty(), source, ": expected results, but its list of rows is empty");
  record.title = results["title"].text_or(record.title);
  record.classes = results["loss"].text_or("") == kCrossEntropy;
  record.complete = results["complete"].flag_or(true);
  read_part(results["summary"], record.summary);
  read_part(results["claims"], record.claims);
  read_part(results["preflight"], record.preflight);
  read_part(results["settings"], record.settings);
  record.data = run::shown_fields(results["data"]);
  record.machine = run::shown_fields(results["machine"]);
  record.timings = run::shown_fields(results["timings"]);
  record.version = results["version"].text_or("");
  record.revision = results["revision"].text_or("");
  return record;
}

std::map<std::string, std::string> read_checksums(const fs::path& folder) {
  const fs::path path = folder / "results.json";
  std::map<std::string, std::string> checksums;
  const JsonValue files = parse_json(read_sealed(path), path.string())["files"];
  if (!files.exists()) return checksums;
  for (const auto& [name, sum] : files.members()) checksums[name] = sum.text();
  return checksums;
}

report::SweepRecord read_results(const fs::path& folder) {
  finish_update(folder);
  const fs::path results = folder / "results.json";
  const fs::path figures = folder / "figures.json";
  report::SweepRecord record = parse_results(read_sealed(results), results.string());
  if (path_exists(figures)) {
    const std::string text = read_regular_file(figures, kLongestJson);
    const auto checksums = read_checksums(folder);
    const auto expected = checksums.find(figures.filename());
    const std::string came = cdt::checksum(text);
    CDT_REQUIRE(expected == checksums.end() || expected->second == came, figures.string(),
                ": is damaged, or of another sweep: expected the checksum of results.json, got ",
                came);
    record.figures = report::parse_figures(text, figures.string());
  }
  return record;
}

}  // namespace cdt::experiment
