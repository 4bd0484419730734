// Runs of a sweep: each on its own thread, kept in a file as soon as it is done.
#include "cli/sweep.h"

#include <ATen/Version.h>
#include <cdt/core/error.h>
#include <cdt/core/file.h>
#include <cdt/core/format.h>
#include <cdt/experiment/results_file.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "cli/speed.h"
#include "cli/sweep_results.h"

namespace cdt::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// Seconds of matrix products before each run, beside whatever the other jobs do.
constexpr double kMeasured = 0.03;

/// What the runs of one call were, in products.
struct Work {
  double gflop = 0;
  double seconds = 0;  ///< the floor: at the rate measured before each run, on all threads together
};

/// A finished run, if the file holds one with all that is wanted; anything else is run again.
std::optional<SweepRun> load_run(const fs::path& path, const SweepCase& what) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    SweepRun run = parse_sweep_run(ordered_json::parse(read_file(path)));
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

/// What all runs of a folder share. The axes of the sweep may grow: finished runs are kept.
ordered_json shared_settings(const SweepPlan& plan, const std::string& checksum) {
  ordered_json settings{{"file", checksum}};
  for (const Setting& setting : plan.settings) {
    static const std::set<std::string> kMayChange{"lrs", "methods", "seeds",  "steps",
                                                  "p",   "archs",   "memory", "device"};
    if (!kMayChange.contains(setting.name)) settings[setting.name] = setting.value;
  }
  for (const Architecture& each : plan.architectures) {
    settings["architecture " + each.name] = fmt::format("{}", fmt::join(each.hidden, ","));
  }
  return settings;
}

void require_same_sweep(const fs::path& folder, const ordered_json& settings) {
  const fs::path path = folder / "sweep.json";
  ordered_json saved;
  if (fs::exists(path)) {
    try {
      saved = ordered_json::parse(read_file(path));
    } catch (const nlohmann::json::exception&) {
      throw InvalidArgument(c10::str(path.string(), ": expected JSON; the file is damaged"));
    }
    CDT_REQUIRE(saved.value("format", "") == "cdt-sweep-1", path.string(),
                ": expected the format cdt-sweep-1, but came '", saved.value("format", ""), "'");
    ordered_json known = settings;
    for (const auto& [name, value] : saved["settings"].items()) known.emplace(name, "");
    for (const auto& [name, value] : known.items()) {
      const bool axis = name.starts_with("architecture ");
      if (axis && !(settings.contains(name) && saved["settings"].contains(name))) continue;
      const std::string before = saved["settings"].value(name, "");
      const std::string now = value.get<std::string>();
      CDT_REQUIRE(before == now, folder.string(), ": its runs were made with ", name, " \"", before,
                  "\", not \"", now, "\"; take another --out");
    }
  }
  saved["format"] = "cdt-sweep-1";
  saved["settings"].update(settings);
  write_file_atomically(path, {saved.dump(2), "\n"});
}

/// What each call that made runs took is kept beside them; returns the list.
ordered_json add_session(const fs::path& folder, const ordered_json& session) {
  const fs::path path = folder / "sweep.json";
  ordered_json content = ordered_json::parse(read_file(path));
  if (!content.contains("sessions")) content["sessions"] = ordered_json::array();
  if (session.at("runs") > 0) {
    content["sessions"].push_back(session);
    write_file_atomically(path, {content.dump(2), "\n"});
  }
  return content["sessions"];
}

/// Runs `cases` on `jobs` threads and adds what was new to `work`. Empty entries: interrupted.
std::vector<std::optional<SweepRun>> run_cases(const SweepPlan& plan,
                                               const std::vector<SweepCase>& cases,
                                               const data::Table& table, const fs::path& folder,
                                               torch::Device device, int64_t jobs,
                                               const Progress& show, Work& work) {
  std::vector<std::optional<SweepRun>> runs(cases.size());
  std::vector<size_t> open;
  for (size_t i = 0; i < cases.size(); ++i) {
    runs[i] = load_run(folder / (cases[i].key() + ".json"), cases[i]);
    if (!runs[i]) open.push_back(i);
  }
  StartKernels kernels;
  std::mutex mutex;
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  size_t done = cases.size() - open.size();
  const auto stop = [&] { return InterruptScope::requested() || failed; };
  const auto take_turns = [&] {
    torch::set_num_threads(1);
    for (size_t turn = next++; turn < open.size() && !stop(); turn = next++) {
      const SweepCase& what = cases[open[turn]];
      try {
        const double rate = gemm_rate(torch::kFloat32, device, kMeasured);
        auto run = execute(plan, what, table, device, kernels, stop);
        if (!run) return;
        write_file_atomically(folder / (what.key() + ".json"), {to_json(*run).dump(), "\n"});
        const std::lock_guard lock(mutex);
        work.gflop += run->operations * 1e-9;
        work.seconds += run->operations * 1e-9 / rate / static_cast<double>(jobs);
        runs[open[turn]] = std::move(run);
        show(static_cast<int64_t>(++done), static_cast<int64_t>(cases.size()), what.key());
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        failed = true;
        return;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int64_t job = 0; job < jobs; ++job) threads.emplace_back(take_turns);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  return runs;
}

/// A rate, method or architecture named twice would give two rows of the same runs.
void require_distinct(const SweepPlan& plan) {
  const auto require = [](const auto& values, const char* name) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        CDT_REQUIRE(values[i] != values[j], name, ": expected each one once, but came ", values[i],
                    " twice");
      }
    }
  };
  require(plan.lrs, "--lrs");
  require(plan.methods, "--methods");
  std::vector<std::string> names;
  for (const Architecture& each : plan.architectures) names.push_back(each.name);
  require(names, "--archs");
}

/// What it took in all calls together; the machine is that of the last one.
void add_timings(ordered_json& content, const ordered_json& sessions,
                 const std::vector<SweepRun>& runs) {
  double training = 0;
  for (const SweepRun& run : runs) training += run.seconds;
  double wall = 0;
  double floor = 0;
  for (const auto& session : sessions) {
    wall += session.at("wall_seconds").get<double>();
    const auto rate = session.at("gemm_gflops").get<double>();
    if (rate > 0) floor += session.at("gflop").get<double>() / rate;
  }
  content["timings"] = {
      {"runs", runs.size()},         {"training_seconds", training},
      {"sessions", sessions.size()}, {"wall_seconds", wall},
      {"floor_seconds", floor},      {"share_of_gemm_rate", number_or_null(floor / wall)}};
  if (sessions.empty()) return;
  const ordered_json& last = sessions.back();
  content["machine"] = {{"device", last.at("device")},
                        {"jobs", last.at("jobs")},
                        {"threads_per_run", 1},
                        {"libtorch", last.at("libtorch")},
                        {"gemm_gflops", last.at("gemm_gflops")}};
}

/// Returns the seconds that it took.
double write_results(const fs::path& folder, const SweepPlan& plan,
                     const std::vector<SweepRow>& rows, const std::vector<Claim>& claims,
                     const std::vector<SweepRun>& runs, const ordered_json& content) {
  const auto start = Clock::now();
  const std::string results = content.dump(2);
  write_file_atomically(folder / "results.json", {results, "\n"});
  write_file_atomically(folder / "results.csv", {to_csv(rows)});
  write_file_atomically(folder / "results.md", {to_markdown(plan, rows, claims)});
  report::SweepRecord record = experiment::parse_results(results, "results.json");
  record.figures = draw_figures(plan, rows, runs);
  write_file_atomically(folder / "figures.json", {report::to_json(record.figures), "\n"});
  write_file_atomically(folder / "report.html", {report::to_html(report::sweep_page(record))});
  return seconds_since(start);
}

}  // namespace

const Architecture& SweepPlan::architecture(const std::string& name) const {
  std::string known;
  for (const Architecture& each : architectures) {
    if (each.name == name) return each;
    known += (known.empty() ? "" : ", ") + each.name;
  }
  throw InvalidArgument(c10::str("there is no architecture '", name, "'; there are ", known));
}

std::vector<SweepCase> cases_of(const SweepPlan& plan) {
  std::map<std::string, SweepCase> unique;
  const auto add = [&](SweepCase what) {
    if (what.method == kGdBest) what.lr = 0;
    const auto [found, fresh] = unique.emplace(what.key(), what);
    found->second.details = found->second.details || what.details;
    found->second.traces = found->second.traces || what.traces;
  };
  const bool steers =
      std::find(plan.methods.begin(), plan.methods.end(), "cdt") != plan.methods.end();
  for (const Architecture& each : plan.architectures) {
    for (int64_t seed = 1; seed <= plan.seeds; ++seed) {
      for (const double lr : plan.lrs) {
        for (const std::string& method : plan.methods) {
          SweepCase what{each.name, method, lr, plan.p, static_cast<uint64_t>(seed), plan.steps};
          what.details = seed == 1 && method == (steers ? "cdt" : plan.methods.front()) &&
                         lr == plan.lrs[plan.lrs.size() > 1 ? 1 : 0];
          what.traces = seed == 1 && each.name == plan.samples_architecture &&
                        lr == plan.samples_lr && (method == "gd" || method == "cdt");
          add(what);
        }
      }
    }
    for (int64_t seed = 1; seed <= std::min(plan.further_seeds, plan.seeds); ++seed) {
      for (const double lr : plan.further_lrs) {
        for (const std::string& method : plan.further_methods) {
          add({each.name, method, lr, plan.p, static_cast<uint64_t>(seed), plan.further_steps});
        }
      }
    }
    if (each.name != plan.weights_architecture) continue;
    for (int64_t seed = 1; seed <= std::min(plan.weights_seeds, plan.seeds); ++seed) {
      for (const double p : plan.weights) {
        add({each.name, "cdt", plan.weights_lr, p, static_cast<uint64_t>(seed), plan.steps});
      }
    }
  }
  std::vector<SweepCase> cases;
  cases.reserve(unique.size());
  for (auto& [key, what] : unique) cases.push_back(std::move(what));
  const auto work = [&](const SweepCase& what) {
    double count = 0;
    int64_t width = 64;
    for (const int64_t next : plan.architecture(what.architecture).hidden) {
      count += static_cast<double>(width) * static_cast<double>(next);
      width = next;
    }
    return count * static_cast<double>(what.steps);
  };
  std::stable_sort(cases.begin(), cases.end(),
                   [&](const auto& a, const auto& b) { return work(a) > work(b); });
  return cases;
}

void SweepOptions::add_to(CLI::App& app, const std::string& folder) {
  out = folder;
  app.add_option("--jobs", jobs, "runs at a time, one thread each; default: all cores, 1 on a GPU")
      ->check(positive());
  app.add_option("--out", out, "folder of the results; runs that it holds are not repeated")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option("--device", machine.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  output.add_to(app);
}

void add_sweep_axes(CLI::App& app, SweepPlan& plan) {
  app.add_option("--lrs", plan.lrs, "learning rates, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive())
      ->type_name("LR");
  app.add_option("--methods", plan.methods,
                 "of gd, gd-matched (gd at lr·√(1 + q/p)), gd-best (gd at 0.9 of its largest "
                 "stable rate), cdt, guarded, momentum, adam, lbfgs")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(
          {"gd", "gd-matched", "gd-best", "cdt", "guarded", "momentum", "adam", "lbfgs"}))
      ->type_name("METHOD");
  app.add_option("--seeds", plan.seeds, "initializations, each with its own split: 1 to N")
      ->check(positive())
      ->type_name("N");
  app.add_option("--steps", plan.steps, "of each run")->check(positive())->type_name("N");
}

int run_sweep(const SweepPlan& plan, const SweepOptions& options) {
  MachineOptions machine = options.machine;
  machine.threads = 1;
  const torch::Device device = machine.apply();
  int64_t jobs = options.jobs > 0   ? options.jobs
                 : device.is_cuda() ? 1
                                    : std::max(1U, std::thread::hardware_concurrency());
  const data::Table table = data::read_csv(plan.data.file, plan.data.csv);
  const std::string sum = study::checksum(read_file(plan.data.file));
  const std::vector<SweepCase> cases = cases_of(plan);
  // What is wrong with the settings shows before any run starts.
  require_distinct(plan);
  CDT_REQUIRE(study::make_problem(table, plan.data, plan.network, 1, device).data.x_val.defined(),
              "a sweep compares validation losses, and no rows are left to validate on");

  const fs::path folder(options.out);
  std::error_code error;
  fs::create_directories(folder / "runs", error);
  CDT_REQUIRE(!error, "cannot create ", folder.string(), ": ", error.message());
  require_same_sweep(folder, shared_settings(plan, sum));

  std::set<std::string> known;
  for (const SweepCase& what : cases) {
    if (load_run(folder / "runs" / (what.key() + ".json"), what)) known.insert(what.key());
  }
  options.output.text(fmt::format("{}: {} runs, {} there already, {} at a time\n", plan.title,
                                  cases.size(), known.size(), jobs));
  jobs = std::clamp<int64_t>(static_cast<int64_t>(cases.size() - known.size()), 1, jobs);
  const auto start = Clock::now();
  std::vector<SweepRun> runs;
  Work work;
  {
    const InterruptScope interrupts;
    const auto show = progress("sweep", "runs", options.output.quiet);
    for (auto& run : run_cases(plan, cases, table, folder / "runs", device, jobs, show, work)) {
      if (run) runs.push_back(std::move(*run));
    }
  }
  const double wall = seconds_since(start);
  const size_t made = runs.size() - known.size();
  const ordered_json sessions =
      add_session(folder, {{"runs", made},
                           {"wall_seconds", wall},
                           {"gflop", work.gflop},
                           {"jobs", jobs},
                           {"device", device.str()},
                           {"libtorch", TORCH_VERSION},
                           {"gemm_gflops", work.seconds > 0 ? work.gflop / work.seconds : 0}});
  const bool complete = runs.size() == cases.size();
  if (!complete) {
    std::cerr << "cdt: interrupted with " << runs.size() << " of " << cases.size()
              << " runs done; the same command continues\n";
  }
  const auto rows = collect_rows(plan, runs);
  if (rows.empty()) return kInterrupted;
  const auto claims = check_claims(plan, rows, runs);
  ordered_json content = to_json(plan, rows, claims, runs);
  content["complete"] = complete;
  content["data"] = {{"file", fs::path(plan.data.file).filename().string()},
                     {"checksum", sum},
                     {"rows", table.rows()}};
  add_timings(content, sessions, runs);
  content["timings"]["runs_made_now"] = made;
  const double report_seconds = write_results(folder, plan, rows, claims, runs, content);
  options.output.text(to_text(plan, rows, claims));
  options.output.text(
      fmt::format("\n{} runs, {} of them now in {:.0f} s; report in {:.2f} s\n{}: report.html, "
                  "results.json, results.csv, results.md, figures.json, runs/\n",
                  runs.size(), made, wall, report_seconds, folder.string()));
  options.output.write_json(content.dump(2));
  return complete ? 0 : kInterrupted;
}

}  // namespace cdt::cli
