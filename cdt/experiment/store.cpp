#include <cdt/core/error.h>
#include <cdt/core/io/file.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/core/io/own_file.h>
#include <cdt/core/io/seal.h>
#include <cdt/experiment/store.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace cdt::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kSweepFormat = "cdt-sweep-1";

/// Settings shared by all runs of a folder.
ordered_json shared_settings(const Plan& plan, const std::string& checksum) {
  static const std::set<std::string> kMayChange{"goals", "lrs",   "methods", "seeds", "steps",
                                                "p",     "archs", "memory",  "device"};
  ordered_json settings{{"file", checksum}};
  for (const report::Setting& setting : plan.settings) {
    if (!kMayChange.contains(setting.name)) settings[setting.name] = setting.value;
  }
  for (const Architecture& each : plan.architectures) {
    const bool dense = each.network == nn::NetworkOptions().architecture;
    settings["architecture " + each.name] =
        fmt::format("{}{}{}", dense ? "" : each.network, dense || each.hidden.empty() ? "" : " ",
                    fmt::join(each.hidden, ","));
  }
  return settings;
}

/// Architectures present in only one of them are ignored.
void require_same(const JsonValue& saved, const ordered_json& settings, const fs::path& folder) {
  ordered_json known = settings;
  for (const auto& [name, value] : saved.members()) known.emplace(name, "");
  for (const auto& [name, value] : known.items()) {
    const bool axis = name.starts_with("architecture ");
    if (axis && !(settings.contains(name) && saved[name].exists())) continue;
    const std::string before = saved[name].text_or("");
    const std::string now = value.get<std::string>();
    CDT_REQUIRE(before == now, folder.string(), ": its runs were made with ", name, " \"", before,
                "\", not \"", now, "\"; take another folder");
  }
}

std::vector<Session> sessions_of(const JsonValue& saved) {
  return saved.exists() ? from_json_value<std::vector<Session>>(saved) : std::vector<Session>();
}

fs::path sweep_file(const fs::path& folder) { return folder / "sweep.json"; }

/// Reads all of it, so that damage is reported before runs are executed.
void require_sweep(const JsonValue& content) {
  content.require_format(kSweepFormat);
  for (const auto& [name, value] : content["settings"].members()) static_cast<void>(value.text());
  sessions_of(content["sessions"]);
}

JsonValue read_sweep(const fs::path& path) {
  JsonValue content = parse_json(read_sealed(path), path.string());
  require_sweep(content);
  return content;
}

void write_sweep(const fs::path& path, ordered_json content) {
  for (const char* seal : {"sealed", "checksum"}) content.erase(seal);  // previous seal
  write_own_file(path, {sealed(dump_exactly(content, path.string(), 2)), "\n"});
}

fs::path run_file(const fs::path& folder, const Case& what) {
  require_file_name(what.key(), "the key of a run");
  return folder / "runs" / (what.key() + ".json");
}

}  // namespace

void SampleTrace::fields(Fields& f) {
  f.need("sample", sample);
  f.need("label", label);
  f.need("outputs", outputs);
  f.need("augmented", augmented, outputs.size());
}

void TargetError::fields(Fields& f) {
  f.need("target", target);
  is_class = f.has("error_rate", is_class);
  f(is_class ? "error_rate" : "rmse", value);
}

void CaseRun::fields(Fields& f) {
  f.format("cdt-sweep-run-1");
  f.need("architecture", what.architecture);
  f.need("shape", shape);
  f.need("method", what.method);
  f.need("asked_lr", what.lr);
  f.need("p", what.p);
  f.need("seed", what.seed);
  f.need("asked_steps", what.steps);
  f.spelled(
      "outcome", outcome, [](const std::string& name) { return name; },
      [](const std::string& name) { return train::to_string(train::parse_outcome(name)); });
  f.need("steps", steps);
  f("lr", lr);
  f("train_loss", train_loss);
  f("val_loss", val_loss);
  f.need("linearizations", linearizations);
  f.need("rejected", rejected);
  f.need("seconds", seconds);
  f.need("operations", operations);
  f.need("lambda_max", lambda_max);
  f("lr_max", lr_max);
  f.need("reachable", reachable);
  f.need("strictly_contracting", strictly_contracting);
  f.object("curve", [&] {
    f.need("step", step);
    f.require(!step.empty(), "step", "the steps of a curve");
    f.need("train", train, step.size());
    f.need("val", val, step.size());
    f.need("refreshed", refreshed, step.size());
    f.need("rejected", rejections, step.size());
  });
  f.need("final_error", final_error);
  f.need("row_norm", row_norm, final_error.size());
  if (f.has("together", together > 1)) f.whole("together", together, 1);
  f.some("errors", errors);
  what.details = f.has("details", what.details);
  if (what.details) {
    f.object("details", [&] {
      f.need("preflight", preflight);
      f.need("eigenvalues", eigenvalues);
      f.need("gain", gain, eigenvalues.size());
      f.need("factor_gd", factor_gd, eigenvalues.size());
      f.need("factor_cdt", factor_cdt, eigenvalues.size());
    });
  }
  what.traces = f.has("traces", what.traces);
  if (what.traces) {
    f.object("traces", [&] {
      f.need("step", trace_step);
      f.need("samples", traces);
      for (const SampleTrace& trace : traces) {
        f.require(trace.outputs.size() == trace_step.size(), "samples", "outputs at each step");
      }
    });
  }
}

void Session::fields(Fields& f) {
  f.need("runs", runs);
  f.need("wall_seconds", wall_seconds);
  f.need("gflop", gflop);
  f.need("jobs", jobs);
  f.need("device", device);
  f.need("libtorch", libtorch);
  f.need("gemm_gflops", gemm_gflops);
}

const std::vector<std::string>& sweep_files() {
  static const std::vector<std::string> names{"sweep.json", "results.json", "results.csv",
                                              "results.md", "figures.json"};
  return names;
}

bool holds_sweep(const fs::path& folder) {
  return path_exists(folder / "sweep.json") || path_exists(folder / "results.json");
}

Store::Store(fs::path folder, const Plan& plan, const std::string& checksum)
    : folder_(std::move(folder)) {
  for (const std::string& name : sweep_files()) {
    CDT_REQUIRE(holds_sweep(folder_) || !path_exists(folder_ / name), folder_.string(), ": has a ",
                name, ", and is no sweep that would write it; choose another folder");
  }
  make_folders(folder_);
  make_own_folder(folder_ / "runs");
  remove_leftovers(folder_ / "runs");
  const ordered_json settings = shared_settings(plan, checksum);
  const fs::path path = sweep_file(folder_);
  ordered_json content{{"format", kSweepFormat}, {"settings", ordered_json::object()}};
  if (path_exists(path)) {
    const JsonValue saved = read_sweep(path);
    require_same(saved["settings"], settings, folder_);
    content = saved.raw();
  }
  content["settings"].update(settings);
  write_sweep(path, content);
}

std::optional<CaseRun> Store::load(const Case& what) const {
  const fs::path path = run_file(folder_, what);
  if (!path_exists(path)) return std::nullopt;
  try {
    CaseRun run = parse_run(read_sealed(path), path.string());
    if (run.what.key() != what.key() || (what.details && !run.what.details) ||
        (what.traces && !run.what.traces)) {
      return std::nullopt;
    }
    run.what = what;  // it may hold more than requested
    return run;
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

CaseRun parse_run(std::string_view json, const std::string& source) {
  return from_json_value<CaseRun>(parse_json(json, source));
}

std::vector<Session> parse_sweep(std::string_view json, const std::string& source) {
  const JsonValue content = parse_json(json, source);
  require_sweep(content);
  return sessions_of(content["sessions"]);
}

void Store::save(const CaseRun& run) const {
  write_own_file(run_file(folder_, run.what),
                 {sealed(dump_readably(to_json_value(run), -1)), "\n"});
}

bool require_intact(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  const std::string text = read_regular_file(path, kLongestJson);
  if (path == sweep_file(folder)) {
    parse_sweep(text, path.string());
  } else {
    parse_run(text, path.string());
  }
  return require_seal(text, path.string());
}

std::vector<Session> Store::add(const Session& session) const {
  const fs::path path = sweep_file(folder_);
  const JsonValue saved = read_sweep(path);
  std::vector<Session> sessions = sessions_of(saved["sessions"]);
  if (session.runs == 0) return sessions;
  sessions.push_back(session);
  ordered_json content = saved.raw();
  content["sessions"].push_back(to_json_value(session));
  write_sweep(path, content);
  return sessions;
}

}  // namespace cdt::experiment
