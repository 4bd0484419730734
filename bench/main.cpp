// The core's speed and memory as ratios within one run, with the error beside each: what `./dev
// bench` prints.
//
// Machines are noisy, so nothing is compared across runs: kernels against a training step and
// against the matrix-product rate measured here, designs against SciPy on the same matrices. Times
// are the best of interleaved repetitions, with the median's distance beside them.
#include <benchmark/benchmark.h>
#include <cdt/analysis/preflight.h>
#include <cdt/control/controller.h>
#include <cdt/control/forecast.h>
#include <cdt/core/npy.h>
#include <cdt/core/tolerance.h>
#include <cdt/core/version.h>
#include <cdt/kernel/curvature.h>
#include <cdt/kernel/ntk.h>
#include <cdt/kernel/products.h>
#include <cdt/nn/mlp.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/memory.h"
#include "bench/pictures.h"
#include "support/temp_folder.h"

namespace cdt::bench {
namespace {

using loss::LossPtr;
using torch::Tensor;

constexpr int64_t kSamples = 358;
constexpr double kRate = 0.1;
const std::vector<int64_t> kWidths{79, 500, 500, 500, 1};
const torch::TensorOptions kDouble = torch::TensorOptions().dtype(torch::kFloat64);

nn::Mlp network(torch::ScalarType dtype) {
  nn::MlpOptions options;
  options.inputs = kWidths.front();
  options.hidden = {kWidths.begin() + 1, kWidths.end() - 1};
  return nn::Mlp(options, 1, dtype);
}

struct Problem {
  nn::Mlp net = network(torch::kFloat32);
  Tensor x = (torch::manual_seed(1), torch::rand({kSamples, kWidths.front()}) - 0.5);
  Tensor y = torch::randn({kSamples, 1}) * 0.1;
  kernel::Ntk ntk = kernel::empirical_ntk(net, x);
  dynamics::Modes spectrum =
      dynamics::decompose(ntk.theta, tol::rank_of_computed(kSamples, torch::kFloat32));
};

/// The best time and the spread of each benchmark's repetitions, in seconds.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const double seconds = run.real_accumulated_time / static_cast<double>(run.iterations);
      if (run.run_type == Run::RT_Iteration)
        seconds_[run.run_name.function_name].push_back(seconds);
    }
  }
  double best(const std::string& name) const {
    const auto& all = seconds_.at(name);
    return *std::min_element(all.begin(), all.end());
  }
  /// How far the median lies above the best, relative to it.
  double spread(const std::string& name) const {
    std::vector<double> all = seconds_.at(name);
    std::sort(all.begin(), all.end());
    return all[all.size() / 2] / all[0] - 1;
  }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

template <class F>
void measure(const std::string& name, int repetitions, const F& work) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [work](benchmark::State& state) {
                                 for (auto _ : state) work();
                               })
      ->UseRealTime()
      ->Repetitions(repetitions)
      ->MinTime(0.05)
      ->Unit(benchmark::kMillisecond);
}

void measure_gemm(const std::string& name, torch::ScalarType dtype) {
  const Tensor a = torch::rand({1024, 1024}, dtype);
  measure(name, 9, [a] { torch::mm(a, a); });
}

std::vector<Tensor> gradients_of(const nn::Network& net, const Tensor& x, const Tensor& y) {
  return torch::autograd::grad({torch::mse_loss(net->forward(x), y)}, net->parameters());
}

/// One step of plain training: forward, backward, update.
void gradient_step(const nn::Network& net, const Tensor& x, const Tensor& y) {
  const auto parameters = net->parameters();
  const auto gradients = gradients_of(net, x, y);
  const torch::NoGradGuard no_grad;
  for (size_t k = 0; k < parameters.size(); ++k) parameters[k].add_(gradients[k], -1e-9);
}

/// What `cdt analyze` does with a table and a network, once they are in memory: kernel,
/// eigendecomposition, every finding that comes from them, gain and Riccati residual, the report as
/// text and JSON. Without the trial steps and their Hessian norms, and without the forecast.
void analyze_fully(const Problem& problem, analysis::PreflightOptions options) {
  const auto ntk = kernel::empirical_ntk(problem.net, problem.x);
  const auto spectrum =
      dynamics::decompose(ntk.theta, tol::rank_of_computed(kSamples, torch::kFloat32));
  options.outputs = ntk.outputs.to(torch::kFloat64).reshape({-1});
  const double factor = loss::gradient_factor(options.loss, spectrum.size());
  options.learning_rate = 0.5 * dynamics::unit_rate(spectrum, factor);
  options.residual = true;
  const auto preflight = analysis::analyze(ntk.theta, spectrum, options);
  benchmark::DoNotOptimize(analysis::to_text(preflight).size() +
                           analysis::to_json(preflight).size());
}

struct Operations {
  double narrow = 0;  ///< float32 products of the passes
  double wide = 0;    ///< float64 Gram products
};

/// What the rules must multiply: forward, gradients at each layer, the self-check's full backward
/// pass, and per layer two Gram products of which symmetry leaves three quarters.
Operations kernel_operations() {
  Operations count;
  const double r = kSamples;
  for (size_t l = 0; l + 1 < kWidths.size(); ++l) {
    const auto in = static_cast<double>(kWidths[l]);
    const auto out = static_cast<double>(kWidths[l + 1]);
    const double product = 2 * r * in * out;
    count.narrow += 2 * product + (l > 0 ? 2 * product : 0);
    count.wide += 0.75 * 2 * r * r * (in + 1 + out);
  }
  return count;
}

/// A kernel like the network's, but with a condition number that SciPy can solve: s from 10⁻³
/// to 1.6.
Tensor moderate_kernel() {
  torch::manual_seed(2);
  const Tensor V = std::get<0>(torch::linalg_qr(torch::randn({kSamples, kSamples}, kDouble)));
  const Tensor s = torch::pow(10.0, torch::linspace(-3, 0.2, kSamples, kDouble));
  const Tensor theta = (V * s).mm(V.t());
  return (theta + theta.t()) / 2;
}

std::string capture(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> buffer;
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  pclose(pipe);
  return text;
}

/// SciPy's time, residual and the distance of its gain from ours, on the same matrices; null if it
/// fails.
nlohmann::json run_scipy(const Tensor& S, const Tensor& Q, const Tensor& R, const Tensor& K) {
  const test::TempFolder folder;
  std::string command = fmt::format("OMP_NUM_THREADS={} {} {}/scipy_dare.py",
                                    torch::get_num_threads(), CDT_BENCH_PYTHON, CDT_BENCH_SCRIPTS);
  const std::array<std::pair<const char*, Tensor>, 4> files{
      {{"S", S}, {"Q", Q}, {"R", R}, {"K", K}}};
  for (const auto& [name, matrix] : files) {
    const auto path = folder / fmt::format("{}.npy", name);
    save_npy(path, matrix);
    command += " " + path.string();
  }
  const std::string text = capture(command);
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// A line of the table with its bar.
struct Table {
  bool all_met = true;

  static void head(const std::string& title) { fmt::print("\n{}\n", title); }
  static void time(const std::string& what, double seconds, double spread,
                   const std::string& error) {
    fmt::print("  {:<50}{:>10.3f} ms   median +{:.0f} %   {}\n", what, 1e3 * seconds, 100 * spread,
               error);
  }
  /// Without a bar.
  static void value(const std::string& what, double value, const std::string& unit) {
    fmt::print("  {:<50}{:>10.2f} {}\n", what, value, unit);
  }
  void bar(const std::string& what, double value, const std::string& unit, bool at_most,
           double limit) {
    const bool met = std::isfinite(value) && (at_most ? value <= limit : value >= limit);
    all_met = all_met && met;
    fmt::print("  {:<50}{:>10.2f} {:<2}          bar {} {:g} {}: {}\n", what, value, unit,
               at_most ? "≤" : "≥", limit, unit, met ? "met" : "NOT MET");
  }
};

double relative_error(const Tensor& a, const Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

/// The contraction factor of the analysis against the norm of the step matrix.
double contraction_gap(const Problem& problem, const analysis::PreflightOptions& options) {
  const auto findings = analysis::analyze(problem.ntk.theta, problem.spectrum, options);
  const double scale = options.learning_rate * loss::gradient_factor(options.loss, kSamples);
  const Tensor A = torch::eye(kSamples, kDouble) - scale * problem.ntk.theta;
  return std::abs(findings.stability.kappa.upper - torch::linalg_svdvals(A)[0].item<double>());
}

int main(int argc, char** argv) {
  torch::set_num_threads(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  if (argc == 3 && std::string(argv[1]) == "--design-memory")
    return print_design_memory(std::stoll(argv[2]));
  if (argc == 3 && std::string(argv[1]) == "--kernel-memory") return print_kernel_memory(argv[2]);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> arguments(argv, argv + argc);
  std::string interleave = "--benchmark_enable_random_interleaving=true";
  arguments.push_back(interleave.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;

  const Problem problem;
  const Tensor moderate = moderate_kernel();
  const auto moderate_spectrum =
      dynamics::decompose(moderate, tol::rank_of_stored(kSamples, torch::kFloat64));
  const double moderate_tolerance = tol::rank_of_computed(kSamples, torch::kFloat32);
  const Tensor q = torch::linspace(0.5, 2.0, kSamples, kDouble);
  const Tensor identity = torch::eye(kSamples, kDouble);
  const Tensor R = 0.1 * identity + torch::full({kSamples, kSamples}, 1e-4, kDouble);
  kernel::NtkOptions by_rows;
  by_rows.path = kernel::NtkOptions::Path::kJacobian;
  analysis::PreflightOptions preflight;
  preflight.outputs_per_sample = 1;
  preflight.labels = problem.y.to(torch::kFloat64).reshape({-1});
  preflight.outputs = problem.ntk.outputs.to(torch::kFloat64).reshape({-1});
  analysis::PreflightOptions full = preflight;
  full.inputs = problem.x;
  const kernel::Model model(problem.net);
  const Tensor w = torch::randn({kSamples});
  const Tensor u = torch::randn({model.parameter_count()});
  // Validation samples: as many as the paper's.
  const Tensor x_val = torch::rand({154, kWidths.front()}) - 0.5;
  const auto cross = kernel::empirical_ntk(problem.net, x_val, problem.x);
  const auto modes =
      dynamics::modal_problem(problem.spectrum, *preflight.outputs - *preflight.labels, cross.theta,
                              cross.outputs.to(torch::kFloat64).reshape({-1}));

  measure_gemm("gemm32", torch::kFloat32);
  measure_gemm("gemm64", torch::kFloat64);
  measure("step", 9, [&] { gradient_step(problem.net, problem.x, problem.y); });
  measure("kernel", 9, [&] { kernel::empirical_ntk(problem.net, problem.x); });
  measure("rows", 1, [&] { kernel::empirical_ntk(problem.net, problem.x, by_rows); });
  measure("eigen", 9, [&] { torch::linalg_eigh(problem.ntk.theta); });
  measure("analysis", 9, [&] { analysis::analyze(problem.ntk.theta, problem.spectrum, full); });
  measure("full", 9, [&] { analyze_fully(problem, full); });
  measure("product", 9, [&] { kernel::hessian_vector_product(model, problem.x, w, u); });
  measure("norm", 5, [&] { kernel::hessian_norm(model, problem.x); });
  measure("forecast", 3, [&] { control::forecast(modes, loss::mse()); });
  measure("spectral", 9, [&] {
    const control::ModalController controller(
        control::Plant::of_kernel(moderate, moderate_tolerance, {}), control::lqr(1, 0.1));
    controller.gain_matrix();
    controller.closed_loop_radius();
    controller.riccati_residual(moderate);
  });
  measure("general", 3, [&] {
    control::design(control::Plant::of_kernel(moderate, moderate_spectrum.rank_tolerance, {}),
                    {.Q = q, .R = R});
  });
  for (const char* name : kPictureNetworks) {
    const PictureProblem pictures(name);
    measure(fmt::format("{} step", name), 5,
            [pictures] { gradient_step(pictures.net, pictures.x, pictures.y); });
    measure(fmt::format("{} kernel", name), 5,
            [pictures] { kernel::empirical_ntk(pictures.net, pictures.x); });
  }
  Collector times;
  benchmark::RunSpecifiedBenchmarks(&times);

  const double gemm32 = 2 * std::pow(1024.0, 3) / times.best("gemm32");
  const double gemm64 = 2 * std::pow(1024.0, 3) / times.best("gemm64");
  fmt::print(
      "cdt {}, {} threads, matrix products at {:.0f} GFLOP/s float32 and {:.0f} float64 (n = "
      "1024)\n",
      kVersion, torch::get_num_threads(), 1e-9 * gemm32, 1e-9 * gemm64);
  Table table;
  const auto row = [&](const std::string& what, const std::string& name, const std::string& error) {
    Table::time(what, times.best(name), times.spread(name), error);
  };

  Table::head(fmt::format("Kernel, MLP 79-500-500-500-1, {} samples", kSamples));
  nn::Mlp wide = network(torch::kFloat64);
  {
    const torch::NoGradGuard no_grad;
    for (size_t l = 0; l < wide->depth(); ++l) {
      wide->weight(l).copy_(problem.net->weight(l));
      wide->bias(l).copy_(problem.net->bias(l));
    }
  }
  const Tensor wide_x = problem.x.to(torch::kFloat64);
  const Tensor exact = kernel::empirical_ntk(wide, wide_x, by_rows).theta;
  const auto against = [](const Tensor& found, const Tensor& truth) {
    return fmt::format("error {:.1e} against float64", relative_error(found, truth));
  };
  const Operations operations = kernel_operations();
  const double floor = operations.narrow / gemm32 + operations.wide / gemm64;
  row("one gradient step (forward, backward, update)", "step",
      against(kernel::flatten(model, gradients_of(problem.net, problem.x, problem.y)),
              kernel::flatten(wide, gradients_of(wide, wide_x, problem.y.to(torch::kFloat64)))));
  row("by rules", "kernel", against(kernel::empirical_ntk(problem.net, problem.x).theta, exact));
  row("by Jacobian rows", "rows",
      against(kernel::empirical_ntk(problem.net, problem.x, by_rows).theta, exact));
  table.bar("by rules / one gradient step", times.best("kernel") / times.best("step"), "×", true,
            3);
  table.bar(fmt::format("share of GEMM rate ({:.2f} + {:.2f} GFLOP)", 1e-9 * operations.narrow,
                        1e-9 * operations.wide),
            100 * floor / times.best("kernel"), "%", false, 60);
  table.bar("Jacobian rows / by rules", times.best("rows") / times.best("kernel"), "×", false, 10);

  for (const std::string name : kPictureNetworks) {
    const PictureProblem pictures(name);
    Table::head(
        fmt::format("Kernel, {}, {} pictures", pictures.net->describe(), pictures.x.size(0)));
    row("one gradient step", name + " step",
        fmt::format("{:.1f} GFLOP in products", 1e-9 * pictures.net->operations_per_sample().step *
                                                    static_cast<double>(pictures.x.size(0))));
    row("by rules", name + " kernel",
        against(kernel::empirical_ntk(pictures.net, pictures.x).theta, pictures.exact_kernel()));
    const double ratio = times.best(name + " kernel") / times.best(name + " step");
    const auto found =
        nlohmann::json::parse(capture(self + " --kernel-memory " + name), nullptr, false);
    const double gib = found.is_discarded() ? NAN : found["gib"].get<double>();
    const char* memory = "resident memory of a process that makes it";
    if (name == kPictureNetworks[0]) {
      table.bar("by rules / one gradient step", ratio, "×", true, 6);
      table.bar(memory, gib, "GiB", true, 3);
    } else {
      Table::value("by rules / one gradient step", ratio, "×");
      Table::value(memory, gib, "GiB");
    }
  }

  Table::head(fmt::format("Controller, n = {}", kSamples));
  const control::ModalController spectral(
      control::Plant::of_kernel(moderate, moderate_tolerance, {}), control::lqr(1, 0.1));
  const auto weighted =
      control::design(control::Plant::of_modes(moderate_spectrum, {}), {.Q = q, .R = R});
  const auto& general = dynamic_cast<const control::GainController&>(*weighted).gain();
  const auto scipy = run_scipy(moderate, identity, 0.1 * identity, spectral.gain_matrix());
  const auto scipy_general = run_scipy(moderate, torch::diag(q), R, general.gain);
  row("spectral: decomposition, gain, residual, radius", "spectral",
      fmt::format("residual {:.1e}", spectral.riccati_residual(moderate)));
  row("general Q, R by doubling, likewise", "general",
      fmt::format("residual {:.1e}, {} iterations", general.residual, general.iterations));
  for (const auto& [name, ours, result, limit] : {std::tuple{"spectral", "spectral", scipy, 80.0},
                                                  {"general", "general", scipy_general, 5.0}}) {
    if (result.is_discarded()) {
      fmt::print("  SciPy failed on the {} problem (is python3-scipy installed?)\n", name);
      table.all_met = false;
      continue;
    }
    Table::time(
        fmt::format("SciPy {} solve_discrete_are, {}", result["scipy"].get<std::string>(), name),
        result["seconds"], 0,
        fmt::format("residual {:.1e}, gain differs by {:.1e}", result["residual"].get<double>(),
                    result["gain_gap"].get<double>()));
    table.bar(fmt::format("SciPy / {}", name), result["seconds"].get<double>() / times.best(ours),
              "×", false, limit);
  }
  const auto memory =
      nlohmann::json::parse(capture(self + " --design-memory 4000"), nullptr, false);
  table.bar(fmt::format("memory of a design at n = 4000 (residual {:.0e})",
                        memory.is_discarded() ? NAN : memory["residual"].get<double>()),
            memory.is_discarded() ? NAN : memory["matrices"].get<double>(), "n²", true, 6);

  Table::head(fmt::format("Analysis, n = {}", kSamples));
  const auto [values, vectors] = torch::linalg_eigh(problem.ntk.theta);
  const Tensor left = problem.ntk.theta.mm(vectors) - vectors * values;
  row("eigendecomposition", "eigen",
      fmt::format("residual {:.1e}", (left.norm() / problem.ntk.theta.norm()).item<double>()));
  row("every finding from it, and the condition on the inputs", "analysis",
      fmt::format("κ differs by {:.1e} from ‖I − αc_LΘ‖", contraction_gap(problem, full)));
  table.bar("everything else / eigendecomposition",
            100 * times.best("analysis") / times.best("eigen"), "%", true, 20);
  row("full report: kernel, spectrum, findings, text, JSON", "full", "");
  table.bar("full report / one gradient step", times.best("full") / times.best("step"), "×", true,
            20);
  const auto curvature = kernel::hessian_norm(model, problem.x);
  row("norm of ∂²ŷ/∂θ²", "norm",
      fmt::format("{:.1f} times the next line; some products take one backward pass more",
                  times.best("norm") / times.best("product")));
  row("one Hessian-vector product", "product", "");
  table.bar("norm: products with second derivatives", static_cast<double>(curvature.products), "",
            true, 8);
  const auto grid = control::forecast(modes, loss::mse());
  row(fmt::format("forecast: {} curves × {} steps", grid.candidates.size(), grid.steps.size()),
      "forecast", "");
  table.bar("forecast", times.best("forecast"), "s", true, 1);
  fmt::print("\n{}\n", table.all_met ? "every bar met" : "NOT every bar met");
  return 0;
}

}  // namespace
}  // namespace cdt::bench

int main(int argc, char** argv) { return cdt::bench::main(argc, argv); }
