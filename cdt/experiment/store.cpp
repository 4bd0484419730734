#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/format.h>
#include <cdt/experiment/store.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace cdt::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

ordered_json list(const std::vector<double>& values) {
  ordered_json array = ordered_json::array();
  for (const double value : values) array.push_back(number_or_null(value));
  return array;
}

double number(const ordered_json& value) {
  return value.is_null() ? kUnknown : value.get<double>();
}

std::vector<double> numbers(const ordered_json& array) {
  std::vector<double> values;
  for (const auto& value : array) values.push_back(number(value));
  return values;
}

ordered_json to_json(const CaseRun& run) {
  ordered_json content{{"format", "cdt-sweep-run-1"},
                       {"architecture", run.what.architecture},
                       {"shape", run.shape},
                       {"method", run.what.method},
                       {"asked_lr", run.what.lr},
                       {"p", run.what.p},
                       {"seed", run.what.seed},
                       {"asked_steps", run.what.steps},
                       {"outcome", run.outcome},
                       {"steps", run.steps},
                       {"lr", number_or_null(run.lr)},
                       {"train_loss", number_or_null(run.train_loss)},
                       {"val_loss", number_or_null(run.val_loss)},
                       {"linearizations", run.linearizations},
                       {"rejected", run.rejected},
                       {"seconds", run.seconds},
                       {"operations", run.operations},
                       {"lambda_max", run.lambda_max},
                       {"lr_max", number_or_null(run.lr_max)},
                       {"reachable", run.reachable},
                       {"strictly_contracting", run.strictly_contracting},
                       {"curve",
                        {{"step", run.step},
                         {"train", list(run.train)},
                         {"val", list(run.val)},
                         {"refreshed", run.refreshed},
                         {"rejected", run.rejections}}},
                       {"final_error", list(run.final_error)},
                       {"row_norm", list(run.row_norm)}};
  if (run.what.details) {
    content["details"] = {{"preflight", run.preflight},
                          {"eigenvalues", list(run.eigenvalues)},
                          {"gain", list(run.gain)},
                          {"factor_gd", list(run.factor_gd)},
                          {"factor_cdt", list(run.factor_cdt)}};
  }
  if (run.what.traces) {
    ordered_json traces = ordered_json::array();
    for (const SampleTrace& trace : run.traces) {
      traces.push_back({{"sample", trace.sample},
                        {"label", trace.label},
                        {"outputs", list(trace.outputs)},
                        {"augmented", list(trace.augmented)}});
    }
    content["traces"] = {{"step", run.trace_step}, {"samples", traces}};
  }
  return content;
}

/// @throws nlohmann::json::exception if the content is something else.
CaseRun parse_run(const ordered_json& content) {
  CaseRun run;
  run.what.architecture = content.at("architecture");
  run.what.method = content.at("method");
  run.what.lr = content.at("asked_lr");
  run.what.p = content.at("p");
  run.what.seed = content.at("seed");
  run.what.steps = content.at("asked_steps");
  run.shape = content.at("shape");
  run.outcome = content.at("outcome");
  run.steps = content.at("steps");
  run.lr = number(content.at("lr"));
  run.train_loss = number(content.at("train_loss"));
  run.val_loss = number(content.at("val_loss"));
  run.linearizations = content.at("linearizations");
  run.rejected = content.at("rejected");
  run.seconds = content.at("seconds");
  run.operations = content.at("operations");
  run.lambda_max = content.at("lambda_max");
  run.lr_max = number(content.at("lr_max"));
  run.reachable = content.at("reachable");
  run.strictly_contracting = content.at("strictly_contracting");
  const ordered_json& curve = content.at("curve");
  run.step = curve.at("step").get<std::vector<int64_t>>();
  run.train = numbers(curve.at("train"));
  run.val = numbers(curve.at("val"));
  run.refreshed = curve.at("refreshed").get<std::vector<int64_t>>();
  run.rejections = curve.at("rejected").get<std::vector<int64_t>>();
  run.final_error = numbers(content.at("final_error"));
  run.row_norm = numbers(content.at("row_norm"));
  if (content.contains("details")) {
    const ordered_json& details = content.at("details");
    run.what.details = true;
    run.preflight = details.at("preflight");
    run.eigenvalues = numbers(details.at("eigenvalues"));
    run.gain = numbers(details.at("gain"));
    run.factor_gd = numbers(details.at("factor_gd"));
    run.factor_cdt = numbers(details.at("factor_cdt"));
  }
  if (content.contains("traces")) {
    run.what.traces = true;
    run.trace_step = content.at("traces").at("step").get<std::vector<int64_t>>();
    for (const auto& trace : content.at("traces").at("samples")) {
      run.traces.push_back({trace.at("sample"), trace.at("label"), numbers(trace.at("outputs")),
                            numbers(trace.at("augmented"))});
    }
  }
  return run;
}

/// What all runs of a folder share.
ordered_json shared_settings(const Plan& plan, const std::string& checksum) {
  static const std::set<std::string> kMayChange{"lrs", "methods", "seeds",  "steps",
                                                "p",   "archs",   "memory", "device"};
  ordered_json settings{{"file", checksum}};
  for (const report::Setting& setting : plan.settings) {
    if (!kMayChange.contains(setting.name)) settings[setting.name] = setting.value;
  }
  for (const Architecture& each : plan.architectures) {
    settings["architecture " + each.name] = fmt::format("{}", fmt::join(each.hidden, ","));
  }
  return settings;
}

/// An architecture that only one of them names is no difference.
void require_same(const ordered_json& saved, const ordered_json& settings, const fs::path& folder) {
  ordered_json known = settings;
  for (const auto& [name, value] : saved.items()) known.emplace(name, "");
  for (const auto& [name, value] : known.items()) {
    const bool axis = name.starts_with("architecture ");
    if (axis && !(settings.contains(name) && saved.contains(name))) continue;
    const std::string before = saved.value(name, "");
    const std::string now = value.get<std::string>();
    CDT_REQUIRE(before == now, folder.string(), ": its runs were made with ", name, " \"", before,
                "\", not \"", now, "\"; take another folder");
  }
}

ordered_json to_json(const Session& session) {
  return {{"runs", session.runs},
          {"wall_seconds", session.wall_seconds},
          {"gflop", session.gflop},
          {"jobs", session.jobs},
          {"device", session.device},
          {"libtorch", session.libtorch},
          {"gemm_gflops", session.gemm_gflops}};
}

Session parse_session(const ordered_json& content) {
  return {content.at("runs"),       content.at("wall_seconds"), content.at("gflop"),
          content.at("jobs"),       content.at("device"),       content.at("libtorch"),
          content.at("gemm_gflops")};
}

fs::path run_file(const fs::path& folder, const Case& what) {
  return folder / "runs" / (what.key() + ".json");
}

}  // namespace

Store::Store(fs::path folder, const Plan& plan, const std::string& checksum)
    : folder_(std::move(folder)) {
  make_folders(folder_ / "runs");
  const ordered_json settings = shared_settings(plan, checksum);
  const fs::path path = folder_ / "sweep.json";
  ordered_json saved;
  if (path_exists(path)) {
    try {
      saved = ordered_json::parse(read_file(path));
    } catch (const nlohmann::json::exception&) {
      throw InvalidArgument(c10::str(path.string(), ": expected JSON; the file is damaged"));
    }
    CDT_REQUIRE(saved.value("format", "") == "cdt-sweep-1", path.string(),
                ": expected the format cdt-sweep-1, but came '", saved.value("format", ""), "'");
    require_same(saved["settings"], settings, folder_);
  }
  saved["format"] = "cdt-sweep-1";
  saved["settings"].update(settings);
  write_file_atomically(path, {saved.dump(2), "\n"});
}

std::optional<CaseRun> Store::load(const Case& what) const {
  const fs::path path = run_file(folder_, what);
  if (!path_exists(path)) return std::nullopt;
  try {
    CaseRun run = parse_run(ordered_json::parse(read_file(path)));
    if (run.what.key() != what.key() || (what.details && !run.what.details) ||
        (what.traces && !run.what.traces)) {
      return std::nullopt;
    }
    run.what = what;  // it may hold more than is wanted
    return run;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

void Store::save(const CaseRun& run) const {
  write_file_atomically(run_file(folder_, run.what), {to_json(run).dump(), "\n"});
}

std::vector<Session> Store::add(const Session& session) const {
  const fs::path path = folder_ / "sweep.json";
  ordered_json content = ordered_json::parse(read_file(path));
  if (!content.contains("sessions")) content["sessions"] = ordered_json::array();
  if (session.runs > 0) {
    content["sessions"].push_back(to_json(session));
    write_file_atomically(path, {content.dump(2), "\n"});
  }
  std::vector<Session> sessions;
  for (const auto& each : content["sessions"]) sessions.push_back(parse_session(each));
  return sessions;
}

}  // namespace cdt::experiment
