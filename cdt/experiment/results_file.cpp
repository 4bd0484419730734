#include <cdt/core/file.h>
#include <cdt/core/format.h>
#include <cdt/core/version.h>
#include <cdt/experiment/figures.h>
#include <cdt/experiment/results_file.h>
#include <cdt/experiment/tables.h>
#include <cdt/run/json_fields.h>
#include <fmt/format.h>

namespace cdt::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using run::count_in;
using run::field;
using run::number_of;
using run::shown;
using run::text_of;

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

/// That of the last call that made runs.
ordered_json describe_machine(const std::vector<Session>& sessions) {
  if (sessions.empty()) return nullptr;
  const Session& last = sessions.back();
  return {{"device", last.device},
          {"jobs", last.jobs},
          {"threads_per_run", 1},
          {"libtorch", last.libtorch},
          {"gemm_gflops", last.gemm_gflops}};
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

ordered_json list_of(const ordered_json& results, const char* name) {
  const ordered_json list = field(results, name);
  CDT_REQUIRE(list.is_null() || list.is_array(), name, ": expected a list, but came ",
              list.dump().substr(0, 60));
  return list.is_null() ? ordered_json::array() : list;
}

std::optional<bool> flag_in(const ordered_json& object, const char* name) {
  const ordered_json value = field(object, name);
  return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

report::MeanLoss loss_in(const ordered_json& object) {
  return {number_of(object, "val_mse_mean"), number_of(object, "val_mse_std")};
}

report::SweepTableRow row_of(const ordered_json& content) {
  CDT_REQUIRE(content.is_object(), "rows: expected a list of objects, but came ", content.dump());
  report::SweepTableRow row;
  row.architecture = shown(field(content, "architecture"));
  row.shape = text_of(content, "shape");
  row.lr = number_of(content, "lr");
  row.method = text_of(content, "method");
  row.reachable = flag_in(content, "reachable");
  row.reachable_runs = count_in(content, "reachable_runs");
  row.strictly_contracting = flag_in(content, "strictly_contracting");
  row.strictly_contracting_runs = count_in(content, "strictly_contracting_runs");
  row.converged = count_in(content, "converged");
  row.runs = count_in(content, "runs");
  row.validation = loss_in(content);
  row.train_mean = number_of(content, "train_mse_mean");
  row.seconds = number_of(content, "seconds");
  if (const auto published = field(content, "published"); !published.is_null()) {
    row.published = loss_in(published);
  }
  row.difference = number_of(content, "difference");
  return row;
}

report::SweepRecord record_of(const ordered_json& results) {
  report::SweepRecord record;
  for (const auto& row : list_of(results, "rows")) record.rows.push_back(row_of(row));
  CDT_REQUIRE(!record.rows.empty(), "expected results, but its list of rows is empty");
  if (field(results, "title").is_string()) record.title = text_of(results, "title");
  record.complete = field(results, "complete") != false;
  for (const auto& text : list_of(results, "summary")) {
    record.summary.push_back(text.get<std::string>());
  }
  for (const auto& claim : list_of(results, "claims")) {
    record.claims.push_back(
        {shown(field(claim, "claim")), flag_in(claim, "held"), text_of(claim, "evidence")});
  }
  for (const auto& text : list_of(results, "preflight")) {
    record.preflight.push_back({text_of(text, "title"), text_of(text, "text")});
  }
  for (const auto& setting : list_of(results, "settings")) {
    record.settings.push_back({shown(field(setting, "name")), shown(field(setting, "value")),
                               shown(field(setting, "source")), text_of(setting, "note")});
  }
  record.data = run::shown_fields(field(results, "data"));
  record.machine = run::shown_fields(field(results, "machine"));
  record.timings = run::shown_fields(field(results, "timings"));
  record.version = text_of(results, "version");
  record.revision = text_of(results, "revision");
  return record;
}

report::SweepRecord parse_results(const ordered_json& results, const std::string& source) {
  run::require_format(results, "cdt-results-1", source);
  try {
    return record_of(results);
  } catch (const std::exception& error) {
    throw InvalidArgument(c10::str(source, ": ", error.what()));
  }
}

}  // namespace

std::string to_json(const Results& results) {
  const Plan& plan = results.plan;
  const Sweep& sweep = results.sweep;
  const ordered_json content{{"format", "cdt-results-1"},
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
                             {"machine", describe_machine(sweep.sessions)},
                             {"timings", describe_timings(sweep)},
                             {"rows", describe_rows(results.rows)},
                             {"claims", describe_claims(results.claims)},
                             {"preflight", describe_preflight(plan, sweep.runs)}};
  return content.dump(2);
}

std::string write_results(const fs::path& folder, const Results& results) {
  const Plan& plan = results.plan;
  std::string json = to_json(results);
  write_file_atomically(folder / "results.json", {json, "\n"});
  write_file_atomically(folder / "results.csv", {to_csv(results.rows)});
  write_file_atomically(folder / "results.md",
                        {to_markdown(plan.title, results.rows, results.claims)});
  report::SweepRecord record = parse_results(json, "results.json");
  record.figures = draw_figures(plan, results.rows, results.sweep.runs);
  write_file_atomically(folder / "figures.json", {report::to_json(record.figures), "\n"});
  write_file_atomically(folder / "report.html", {report::to_html(report::sweep_page(record))});
  return json;
}

report::SweepRecord parse_results(const std::string& json, const std::string& source) {
  return parse_results(run::parse_json(json, source), source);
}

report::SweepRecord read_results(const fs::path& folder) {
  const fs::path results = folder / "results.json";
  const fs::path figures = folder / "figures.json";
  report::SweepRecord record = parse_results(read_file(results), results.string());
  if (path_exists(figures)) {
    record.figures = report::parse_figures(read_file(figures), figures.string());
  }
  return record;
}

}  // namespace cdt::experiment
