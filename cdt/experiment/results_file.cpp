#include <cdt/core/checksum.h>
#include <cdt/core/file.h>
#include <cdt/core/folder.h>
#include <cdt/core/io/seal.h>
#include <cdt/core/text/format.h>
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
using run::shown;

/// The loss whose numbers are no squares, and are called so.
constexpr const char* kCrossEntropy = "cross-entropy";

ordered_json describe_rows(const std::vector<Row>& rows) {
  ordered_json list = ordered_json::array();
  for (const Row& row : rows) {
    const auto all = [&](int64_t count) { return count == static_cast<int64_t>(row.runs.size()); };
    ordered_json published;
    if (row.published) {
      published = {{"val_mse_mean", number_or_null(row.published->loss.mean)},
                   {"val_mse_std", number_or_null(row.published->loss.spread)},
                   {"converged", row.published->converged}};
    }
    list.push_back({{"architecture", row.architecture},
                    {"shape", row.runs.empty() ? "" : row.runs.front()->shape},
                    {"lr", number_or_null(row.lr)},
                    {"method", row.method},
                    {"reachable", all(row.reachable)},
                    {"reachable_runs", row.reachable},
                    {"strictly_contracting", all(row.strictly_contracting)},
                    {"strictly_contracting_runs", row.strictly_contracting},
                    {"converged", row.converged},
                    {"runs", row.runs.size()},
                    {"val_mse_mean", number_or_null(row.val_mean)},
                    {"val_mse_std", number_or_null(row.val_std)},
                    {"train_mse_mean", number_or_null(row.train_mean)},
                    {"seconds", row.seconds},
                    {"published", published},
                    {"difference", number_or_null(row.difference())}});
    if (row.own_rate()) list.back()["own_rate"] = true;
    if (predicts(row.method)) {  // there is no single kernel to say it of
      for (const char* name :
           {"reachable", "reachable_runs", "strictly_contracting", "strictly_contracting_runs"}) {
        list.back()[name] = nullptr;
      }
    }
    for (const report::SweepError& error : row.errors) {
      const std::string name = error.is_class ? "error_rate" : "rmse";
      list.back()["errors"].push_back({{"target", error.target},
                                       {name + "_mean", number_or_null(error.error.mean)},
                                       {name + "_std", number_or_null(error.error.spread)}});
    }
  }
  return list;
}

ordered_json describe_settings(const std::vector<report::Setting>& settings) {
  ordered_json list = ordered_json::array();
  for (const report::Setting& each : settings) {
    if (each.value.empty()) continue;
    list.push_back(
        {{"name", each.name}, {"value", each.value}, {"source", each.source}, {"note", each.note}});
  }
  return list;
}

ordered_json describe_claims(const std::vector<report::Claim>& claims) {
  ordered_json list = ordered_json::array();
  for (const report::Claim& claim : claims) {
    list.push_back({{"claim", claim.text},
                    {"held", claim.held ? ordered_json(*claim.held) : ordered_json()},
                    {"evidence", claim.evidence}});
  }
  return list;
}

ordered_json describe_preflight(const Plan& plan, const std::vector<CaseRun>& runs) {
  ordered_json list = ordered_json::array();
  for (const Architecture& each : plan.architectures) {
    for (const CaseRun& run : runs) {
      if (!run.what.details || run.what.architecture != each.name) continue;
      list.push_back({{"title", fmt::format("architecture {}", each.name)},
                      {"text", fmt::format("Network {}, learning rate {:g}, seed {}\n\n{}",
                                           run.shape, run.lr, run.what.seed, run.preflight)}});
    }
  }
  return list;
}

/// That of the last call that made runs, and how many of all runs were trained as one at most.
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

/// What it took in all calls together.
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
          {"share_of_gemm_rate", number_or_null(floor / wall)},
          {"runs_made_now", sweep.made}};
}

std::vector<JsonValue> list_in(const JsonValue& results, const char* name) {
  const JsonValue list = results[name];
  return list.exists() ? list.list() : std::vector<JsonValue>();
}

std::optional<bool> flag_in(const JsonValue& object, const char* name) {
  const JsonValue value = object[name];
  return value.exists() ? std::optional(value.flag()) : std::nullopt;
}

std::optional<int64_t> count_in(const JsonValue& object, const char* name) {
  const JsonValue value = object[name];
  return value.exists() ? std::optional(value.count()) : std::nullopt;
}

report::MeanLoss loss_in(const JsonValue& object) {
  return {object["val_mse_mean"].number_or_nan(), object["val_mse_std"].number_or_nan()};
}

report::SweepTableRow row_of(const JsonValue& content) {
  report::SweepTableRow row;
  row.architecture = shown(content["architecture"]);
  row.shape = content["shape"].text_or("");
  row.lr = content["lr"].number_or_nan();
  row.method = content["method"].text_or("");
  row.reachable = flag_in(content, "reachable");
  row.reachable_runs = count_in(content, "reachable_runs");
  row.strictly_contracting = flag_in(content, "strictly_contracting");
  row.strictly_contracting_runs = count_in(content, "strictly_contracting_runs");
  row.converged = count_in(content, "converged");
  row.runs = count_in(content, "runs");
  row.validation = loss_in(content);
  row.train_mean = content["train_mse_mean"].number_or_nan();
  row.seconds = content["seconds"].number_or_nan();
  if (content["published"].exists()) row.published = loss_in(content["published"]);
  row.difference = content["difference"].number_or_nan();
  row.own_rate = content["own_rate"].flag_or(false);
  for (const JsonValue& error : list_in(content, "errors")) {
    const bool is_class = error["error_rate_mean"].exists();
    const std::string name = is_class ? "error_rate" : "rmse";
    row.errors.push_back(
        {error["target"].text(),
         is_class,
         {error[name + "_mean"].number_or_nan(), error[name + "_std"].number_or_nan()}});
  }
  return row;
}

}  // namespace

std::string to_json(const Results& results, const std::map<std::string, std::string>& files) {
  const Plan& plan = results.plan;
  const Sweep& sweep = results.sweep;
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
                       {"settings", describe_settings(plan.settings)},
                       {"machine", describe_machine(sweep)},
                       {"timings", describe_timings(sweep)},
                       {"rows", describe_rows(results.rows)},
                       {"claims", describe_claims(results.claims)},
                       {"preflight", describe_preflight(plan, sweep.runs)}};
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
  for (const JsonValue& row : list_in(results, "rows")) record.rows.push_back(row_of(row));
  CDT_REQUIRE(!record.rows.empty(), source, ": expected results, but its list of rows is empty");
  record.title = results["title"].text_or(record.title);
  record.classes = results["loss"].text_or("") == kCrossEntropy;
  record.complete = results["complete"].flag_or(true);
  if (results["summary"].exists()) record.summary = results["summary"].texts();
  for (const JsonValue& claim : list_in(results, "claims")) {
    record.claims.push_back(
        {shown(claim["claim"]), flag_in(claim, "held"), claim["evidence"].text_or("")});
  }
  for (const JsonValue& text : list_in(results, "preflight")) {
    record.preflight.push_back({text["title"].text_or(""), text["text"].text_or("")});
  }
  for (const JsonValue& setting : list_in(results, "settings")) {
    record.settings.push_back({shown(setting["name"]), shown(setting["value"]),
                               shown(setting["source"]), setting["note"].text_or("")});
  }
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
                ": is damaged, or of another sweep: expected the checksum of results.json, but "
                "came ",
                came);
    record.figures = report::parse_figures(text, figures.string());
  }
  return record;
}

}  // namespace cdt::experiment
