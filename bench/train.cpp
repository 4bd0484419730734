// Training: the price of a controlled step, the way to a small error beside PyTorch's optimizers,
// and what the learning rate does to it. What `./dev bench-train` prints; with AmesHousing.csv all
// of it.
#include <cdt/core/npy.h>
#include <cdt/data/preprocess.h>
#include <cdt/data/split.h>
#include <cdt/nn/engine.h>
#include <cdt/nn/mlp.h>
#include <cdt/train/trainer.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/temp_folder.h"

namespace cdt::bench {
namespace {

using torch::Tensor;

constexpr double kGoal = 1e-6;
const std::vector<std::vector<int64_t>> kArchitectures{
    {1500}, {500, 500, 500}, {250, 250, 250, 250, 250, 250}};

nn::Mlp network(size_t architecture, uint64_t seed, int64_t inputs) {
  nn::MlpOptions options;
  options.inputs = inputs;
  options.hidden = kArchitectures[architecture];
  return nn::Mlp(options, seed);
}

/// 358 training rows of the paper's experiment, or random ones of the same shape.
train::TrainData samples(const std::string& file, uint64_t seed) {
  train::TrainData data;
  if (file.empty()) {
    torch::manual_seed(seed);
    data.x = torch::rand({358, 79}) - 0.5;
    data.y = torch::randn({358, 1}, torch::kFloat64) * 0.1;
    return data;
  }
  data::CsvOptions csv;
  csv.drop = {"Order", "PID"};
  const data::Table table = data::read_csv(file, csv);
  data::PreprocessOptions options;
  options.targets = {"SalePrice"};
  const auto preprocess = data::fit_preprocess(table, options);
  const auto split = data::split_rows(table.rows(), 512, 358, seed);
  data.x = preprocess.transform(table, split.train).to(torch::kFloat32);
  data.y = preprocess.transform_targets(table, split.train);
  return data;
}

train::TrainResult run(size_t architecture, const train::TrainData& data, uint64_t seed,
                       const train::TrainOptions& options) {
  const nn::Mlp net = network(architecture, seed, data.x.size(1));
  return train::Trainer(net, data, options, nn::make_engine(net)).run();
}

/// The median time of steps that neither linearized nor were rejected, the best of some runs.
double step_time(const train::TrainResult& result) {
  std::vector<double> times;
  for (size_t k = 1; k + 1 < result.history.size(); ++k) {
    const auto& row = result.history[k];
    if (row.refreshed == 0 && row.rejected == 0) {
      times.push_back(row.seconds - result.history[k - 1].seconds);
    }
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

double gemm_rate() {
  const Tensor a = torch::rand({1024, 1024});
  double best = 1e9;
  for (int k = 0; k < 20; ++k) {
    const auto start = std::chrono::steady_clock::now();
    torch::mm(a, a);
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return 2 * std::pow(1024.0, 3) / best;
}

/// Products of one gradient step: forward, weight gradients, input gradients beyond the first
/// layer.
double step_operations(size_t architecture) {
  double count = 0;
  double in = 79;
  for (const int64_t width : kArchitectures[architecture]) {
    count += (in == 79 ? 2 : 3) * 2 * 358 * in * static_cast<double>(width);
    in = static_cast<double>(width);
  }
  return count + 3 * 2 * 358 * in;
}

nlohmann::json run_torch(size_t architecture, const train::TrainData& data, uint64_t seed,
                         double goal) {
  const test::TempFolder folder;
  nn::Mlp net = network(architecture, seed, data.x.size(1));
  save_npy(folder / "x.npy", data.x);
  save_npy(folder / "y.npy", data.y.to(torch::kFloat32));
  for (size_t l = 0; l < net->depth(); ++l) {
    save_npy(folder / fmt::format("w{}.npy", l), net->weight(l).detach());
    save_npy(folder / fmt::format("b{}.npy", l), net->bias(l).detach());
  }
  const auto out = folder / "out.json";
  const std::string command =
      fmt::format("OMP_NUM_THREADS={0} {1} {2}/train_torch.py {3} {4} {0} {5} > {6}",
                  torch::get_num_threads(), CDT_BENCH_PYTHON, CDT_BENCH_SCRIPTS,
                  folder.path().string(), net->depth(), goal, out.string());
  if (std::system(command.c_str()) != 0) return {};
  std::ifstream file(out);
  return nlohmann::json::parse(file);
}

bool all_met = true;

void bar(const std::string& what, double value, const std::string& unit, bool at_most,
         double limit) {
  const bool met = std::isfinite(value) && (at_most ? value <= limit : value >= limit);
  all_met = all_met && met;
  fmt::print("  {:<52}{:>9.2f} {:<2} bar {} {:g}: {}\n", what, value, unit, at_most ? "≤" : "≥",
             limit, met ? "met" : "NOT MET");
  std::fflush(stdout);
}

void measure_steps(const std::string& file) {
  fmt::print("\nOne step, 358 samples ({} threads)\n", torch::get_num_threads());
  const train::TrainData data = samples(file, 1);
  for (size_t a = 0; a < kArchitectures.size(); ++a) {
    double gd = 1e9, cdt = 1e9, guarded = 1e9, eager = 1e9, rate = 0;
    for (int round = 0; round < 4; ++round) {  // interleaved: the machine's mood is shared
      train::TrainOptions options;
      options.steps = 60;
      options.method = "gd";
      gd = std::min(gd, step_time(run(a, data, 1, options)));
      options.method = "cdt";
      cdt = std::min(cdt, step_time(run(a, data, 1, options)));
      options.method = "guarded";
      options.learning_rate = 1e-4;  // so small that every step keeps its promise
      guarded = std::min(guarded, step_time(run(a, data, 1, options)));
      const auto torch = run_torch(a, data, 1, 0);
      if (!torch.is_null()) eager = std::min(eager, torch["step"].get<double>());
      rate = std::max(rate, gemm_rate());
    }
    fmt::print(
        "  architecture {}: gd {:.2f} ms, cdt {:.2f} ms, guarded {:.2f} ms, PyTorch eager {:.2f} "
        "ms\n",
        a + 1, 1e3 * gd, 1e3 * cdt, 1e3 * guarded, 1e3 * eager);
    bar("cdt / gd", cdt / gd, "×", true, 1.10);
    bar("guarded / gd", guarded / gd, "×", true, 1.25);
    bar("gd / PyTorch eager", gd / eager, "×", true, 1.0);
    const double share = 100 * step_operations(a) / rate / gd;
    if (a == 1) {
      bar("gd: share of the GEMM rate", share, "%", false, 60);
    } else {
      fmt::print("  {:<52}{:>9.2f} %\n", "gd: share of the GEMM rate", share);
    }
  }
}

void measure_goal(const std::string& file) {
  fmt::print("\nTo a training MSE of {:g}, no learning rate given: median of 3 seeds\n", kGoal);
  for (const size_t a : {size_t{0}, size_t{2}}) {
    std::vector<double> ours, adam, lbfgs;
    for (const uint64_t seed : {1, 2, 3}) {
      const train::TrainData data = samples(file, seed);
      train::TrainOptions options;
      options.stop_loss = kGoal;
      const auto result = run(a, data, seed, options);
      const auto torch = run_torch(a, data, seed, kGoal);
      ours.push_back(result.seconds);
      fmt::print("  architecture {}, seed {}: guarded {:.3f} s, {} steps, {} linearizations ({})",
                 a + 1, seed, result.seconds, result.steps, result.linearizations,
                 to_string(result.outcome));
      if (torch.is_null()) {
        fmt::print("; PyTorch failed (is python3-torch installed?)\n");
        continue;
      }
      fmt::print("; Adam {:.3f} s, {} steps at {}{}; L-BFGS {:.3f} s, {} steps{}\n",
                 torch["adam"]["seconds"].get<double>(), torch["adam"]["steps"].get<int>(),
                 torch["adam"]["rate"].get<double>(),
                 torch["adam"]["reached"] ? "" : " (not reached)",
                 torch["lbfgs"]["seconds"].get<double>(), torch["lbfgs"]["steps"].get<int>(),
                 torch["lbfgs"]["reached"] ? "" : " (not reached)");
      std::fflush(stdout);
      adam.push_back(torch["adam"]["seconds"]);
      lbfgs.push_back(torch["lbfgs"]["seconds"]);
    }
    const auto median = [](std::vector<double> values) {
      std::sort(values.begin(), values.end());
      return values.empty() ? NAN : values[values.size() / 2];
    };
    bar("Adam (better of 1e-3, 3e-3) / guarded", median(adam) / median(ours), "×", false,
        a == 0 ? 10 : 4);
    bar("L-BFGS (strong Wolfe) / guarded", median(lbfgs) / median(ours), "×", false, 10);
  }
}

void sweep_rates(const std::string& file) {
  fmt::print(
      "\nLearning rates, 5 seeds, 300 steps: runs that reach {:g} / runs that diverge; median "
      "steps\n",
      kGoal);
  int64_t broken = 0;
  int64_t missed = 0;
  for (size_t a = 0; a < kArchitectures.size(); ++a) {
    fmt::print("  architecture {}\n    {:>8}{:>30}{:>30}\n", a + 1, "lr", "guarded", "cdt");
    for (const double rate : {1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4}) {
      fmt::print("    {:>8g}", rate);
      for (const train::Method method : {"guarded", "cdt"}) {
        int reached = 0;
        int diverged = 0;
        std::vector<int64_t> steps;
        for (const uint64_t seed : {1, 2, 3, 4, 5}) {
          train::TrainOptions options;
          options.method = method;
          options.learning_rate = rate;
          options.steps = 300;
          options.stop_loss = kGoal;
          const auto result = run(a, samples(file, seed), seed, options);
          const bool there = result.train_loss <= kGoal;
          reached += there ? 1 : 0;
          diverged += result.diverged() ? 1 : 0;
          if (there) steps.push_back(result.steps);
          if (method != "guarded") continue;
          missed += rate >= 10 && !there ? 1 : 0;
          for (size_t k = 1; k < result.history.size(); ++k) {
            broken += result.history[k].train_loss <= result.history[k - 1].train_loss ? 0 : 1;
          }
        }
        std::sort(steps.begin(), steps.end());
        const std::string median =
            steps.empty() ? std::string("-") : std::to_string(steps[steps.size() / 2]);
        fmt::print("{:>30}",
                   fmt::format("{}/5 reach, {}/5 diverge, {}", reached, diverged, median));
        std::fflush(stdout);
      }
      fmt::print("\n");
    }
  }
  bar("guarded: steps at which the error rose", static_cast<double>(broken), "", true, 0);
  bar("guarded: runs from lr 10 up that missed", static_cast<double>(missed), "", true, 0);
}

int main(int argc, char** argv) {
  torch::set_num_threads(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  const std::string file = argc > 1 ? argv[1] : "";
  measure_steps(file);
  if (file.empty()) {
    fmt::print("\nThe other measurements need AmesHousing.csv: ./dev bench-train FILE\n");
  } else {
    measure_goal(file);
    sweep_rates(file);
  }
  fmt::print("\n{}\n", all_met ? "every bar met" : "NOT every bar met");
  return 0;
}

}  // namespace
}  // namespace cdt::bench

int main(int argc, char** argv) { return cdt::bench::main(argc, argv); }
