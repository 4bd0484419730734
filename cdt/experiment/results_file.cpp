#include <cdt/core/file.h>
#include <cdt/experiment/results_file.h>
#include <cdt/run/json_fields.h>

namespace cdt::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using run::count_in;
using run::field;
using run::number_of;
using run::shown;
using run::text_of;

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

report::SweepRecord parse_results(const std::string& json, const std::string& source) {
  return parse_results(run::parse_json(json, source), source);
}

report::SweepRecord read_results(const fs::path& folder) {
  const fs::path results = folder / "results.json";
  const fs::path figures = folder / "figures.json";
  report::SweepRecord record = parse_results(read_file(results), results.string());
  if (fs::exists(figures)) {
    record.figures = report::parse_figures(read_file(figures), figures.string());
  }
  return record;
}

}  // namespace cdt::experiment
