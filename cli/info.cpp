// cdt info: versions, BLAS, threads, devices, and the speed of matrix products.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <cdt/core/io/json.h>
#include <cdt/core/machine/speed.h>
#include <cdt/core/version.h>
#include <cdt/report/page.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <filesystem>
#include <thread>

#include "cli/command.h"
#include "cli/workers.h"

namespace cdt::cli {
namespace {

/// Measuring time in seconds, for each precision.
constexpr double kMeasuredSeconds = 0.15;

struct InfoCommand {
  MachineOptions machine;
  OutputOptions output;
};

/// The library file of LibTorch's matrix products: the one that defines dgemm_.
std::string blas_library() {
  void* symbol = dlsym(RTLD_DEFAULT, "dgemm_");
  Dl_info info;
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr)
    return "inside LibTorch";
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? info.dli_fname : path.string();
}

int run_info(const InfoCommand& options) {
  const torch::Device device = options.machine.apply();
  nlohmann::ordered_json json;
  json["cdt"] = kVersion;
  json["libtorch"] = TORCH_VERSION;
  json["blas"] = blas_library();
  json["threads"] = torch::get_num_threads();
  json["cores"] = std::thread::hardware_concurrency();
  json["cuda_devices"] = torch::cuda::is_available() ? torch::cuda::device_count() : 0;
  json["device"] = device.str();
  json["left_out"] = nlohmann::ordered_json::array();
  std::string left_out;
  const auto without = [&](const char* what, const char* package, const char* lost) {
    json["left_out"].push_back(package);
    left_out += fmt::format("built without {}, so without {}; Debian's {} brings it back\n", what,
                            lost, package);
  };
#ifndef CDT_TOML
  without("toml++", "libtomlplusplus-dev", "--config and --experiment");
#endif
  if (const char* package = package_of_workers()) without("Gloo's headers", package, "--workers");
  if (!report::has_charts()) without("Chart.js", "libjs-chart.js", "report pages");
  json["gemm_gflops_float32"] = gemm_rate(torch::kFloat32, device, kMeasuredSeconds);
  json["gemm_gflops_float64"] = gemm_rate(torch::kFloat64, device, kMeasuredSeconds);
  const double per_thread =
      json["gemm_gflops_float64"].get<double>() / json["threads"].get<double>();
  std::string text = fmt::format(
      "cdt {}\n"
      "LibTorch {}, BLAS {}\n"
      "{} of {} cores, {} CUDA device{}\n"
      "matrix products on {}: {:.0f} GFLOP/s float32, {:.0f} float64\n",
      kVersion, TORCH_VERSION, json["blas"].get<std::string>(), json["threads"].get<int>(),
      json["cores"].get<unsigned>(), json["cuda_devices"].get<int>(),
      json["cuda_devices"].get<int>() == 1 ? "" : "s", device.str(),
      json["gemm_gflops_float32"].get<double>(), json["gemm_gflops_float64"].get<double>());
  // The reference BLAS reaches 2 or 3 GFLOP/s per core, an optimised one ten times that.
  if (device.is_cpu() && per_thread < 6) {
    text +=
        "That is slow: is the reference BLAS in use? On Debian, apt-get install "
        "libopenblas0-openmp.\n";
  }
  options.output.text(text + left_out);
  options.output.write_json(dump_readably(json));
  return 0;
}

}  // namespace

std::function<int()> setup_info(CLI::App& app) {
  auto options = std::make_shared<InfoCommand>();
  options->machine.add_to(app);
  options->output.add_to(app);
  app.footer("Example:\n  cdt info");
  return [options] { return run_info(*options); };
}

}  // namespace cdt::cli
