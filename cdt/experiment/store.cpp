#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/io/json.h>
#include <cdt/core/io/own_file.h>
#include <cdt/core/io/seal.h>
#include <cdt/core/text/format.h>
#include <cdt/experiment/store.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace cdt::experiment {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kSweepFormat = "cdt-sweep-1";

ordered_json list(const std::vector<double>& values) {
  ordered_json array = ordered_json::array();
  for (const double value : values) array.push_back(number_or_null(value));
  return array;
}

const char* error_name(bool is_class) { return is_class ? "error_rate" : "rmse"; }

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
  if (run.together > 1) content["together"] = run.together;
  for (const TargetError& each : run.errors) {
    content["errors"].push_back(
        {{"target", each.target}, {error_name(each.is_class), number_or_null(each.value)}});
  }
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

/// @throws InvalidArgument if the content is something else.
CaseRun run_of(const JsonValue& content) {
  CaseRun run;
  run.what.architecture = content["architecture"].text();
  run.what.method = content["method"].text();
  run.what.lr = content["asked_lr"].number();
  run.what.p = content["p"].number();
  run.what.seed = content["seed"].seed();
  run.what.steps = content["asked_steps"].count();
  run.shape = content["shape"].text();
  run.outcome = train::to_string(content["outcome"].name(train::parse_outcome));
  run.steps = content["steps"].count();
  run.lr = content["lr"].number_or_nan();
  run.train_loss = content["train_loss"].number_or_nan();
  run.val_loss = content["val_loss"].number_or_nan();
  run.linearizations = content["linearizations"].count();
  run.rejected = content["rejected"].count();
  run.seconds = content["seconds"].number();
  run.operations = content["operations"].number();
  run.lambda_max = content["lambda_max"].number();
  run.lr_max = content["lr_max"].number_or_nan();
  run.reachable = content["reachable"].flag();
  run.strictly_contracting = content["strictly_contracting"].flag();
  const JsonValue curve = content["curve"];
  run.step = curve["step"].counts();
  const size_t points = run.step.size();
  if (points == 0) curve["step"].refuse("the steps of a curve");
  run.train = curve["train"].numbers(points);
  run.val = curve["val"].numbers(points);
  run.refreshed = curve["refreshed"].counts(points);
  run.rejections = curve["rejected"].counts(points);
  run.final_error = content["final_error"].numbers();
  run.row_norm = content["row_norm"].numbers(run.final_error.size());
  if (const JsonValue together = content["together"]; together.exists()) {
    run.together = together.whole(1);
  }
  if (const JsonValue errors = content["errors"]; errors.exists()) {
    for (const JsonValue& each : errors.list()) {
      const bool is_class = each[error_name(true)].exists();
      run.errors.push_back(
          {each["target"].text(), is_class, each[error_name(is_class)].number_or_nan()});
    }
  }
  if (const JsonValue details = content["details"]; details.exists()) {
    run.what.details = true;
    run.preflight = details["preflight"].text();
    run.eigenvalues = details["eigenvalues"].numbers();
    const size_t modes = run.eigenvalues.size();
    run.gain = details["gain"].numbers(modes);
    run.factor_gd = details["factor_gd"].numbers(modes);
    run.factor_cdt = details["factor_cdt"].numbers(modes);
  }
  if (const JsonValue traces = content["traces"]; traces.exists()) {
    run.what.traces = true;
    run.trace_step = traces["step"].counts();
    const size_t steps = run.trace_step.size();
    for (const JsonValue& trace : traces["samples"].list()) {
      run.traces.push_back({trace["sample"].count(), trace["label"].number(),
                            trace["outputs"].numbers(steps), trace["augmented"].numbers(steps)});
    }
  }
  return run;
}

/// What all runs of a folder share.
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

/// An architecture that only one of them names is no difference.
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

ordered_json to_json(const Session& session) {
  return {{"runs", session.runs},
          {"wall_seconds", session.wall_seconds},
          {"gflop", session.gflop},
          {"jobs", session.jobs},
          {"device", session.device},
          {"libtorch", session.libtorch},
          {"gemm_gflops", session.gemm_gflops}};
}

std::vector<Session> read_sessions(const JsonValue& saved) {
  std::vector<Session> sessions;
  if (!saved.exists()) return sessions;
  for (const JsonValue& each : saved.list()) {
    sessions.push_back({each["runs"].count(), each["wall_seconds"].number(), each["gflop"].number(),
                        each["jobs"].count(), each["device"].text(), each["libtorch"].text(),
                        each["gemm_gflops"].number()});
  }
  return sessions;
}

fs::path sweep_file(const fs::path& folder) { return folder / "sweep.json"; }

/// All of it is looked at: what is damaged shows before the runs are made, not after.
void require_sweep(const JsonValue& content) {
  content.require_format(kSweepFormat);
  for (const auto& [name, value] : content["settings"].members()) static_cast<void>(value.text());
  read_sessions(content["sessions"]);
}

JsonValue read_sweep(const fs::path& path) {
  JsonValue content = parse_json(read_sealed(path), path.string());
  require_sweep(content);
  return content;
}

void write_sweep(const fs::path& path, ordered_json content) {
  for (const char* seal : {"sealed", "checksum"}) content.erase(seal);  // of what it was
  write_own_file(path, {sealed(dump_exactly(content, path.string(), 2)), "\n"});
}

fs::path run_file(const fs::path& folder, const Case& what) {
  require_file_name(what.key(), "the key of a run");
  return folder / "runs" / (what.key() + ".json");
}

}  // namespace

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
    run.what = what;  // it may hold more than is wanted
    return run;
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

CaseRun parse_run(std::string_view json, const std::string& source) {
  return run_of(parse_json(json, source));
}

std::vector<Session> parse_sweep(std::string_view json, const std::string& source) {
  const JsonValue content = parse_json(json, source);
  require_sweep(content);
  return read_sessions(content["sessions"]);
}

void Store::save(const CaseRun& run) const {
  write_own_file(run_file(folder_, run.what), {sealed(dump_readably(to_json(run), -1)), "\n"});
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
  std::vector<Session> sessions = read_sessions(saved["sessions"]);
  if (session.runs == 0) return sessions;
  sessions.push_back(session);
  ordered_json content = saved.raw();
  content["sessions"].push_back(to_json(session));
  write_sweep(path, content);
  return sessions;
}

}  // namespace cdt::experiment
