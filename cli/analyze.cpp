// cdt analyze: the pre-flight report.
#include <cdt/analysis/report.h>
#include <fmt/format.h>

#include "cli/command.h"

namespace cdt::cli {
namespace {

struct Options {
  KernelSource source;
  DesignOptions design;
  MachineOptions machine;
  OutputOptions output;
};

int run(const Options& options) {
  const torch::Device device = options.machine.apply();
  const LoadedKernel kernel = load_kernel(options.source, device, options.output.quiet);
  const analysis::PreflightOptions settings = options.design.load(kernel);
  const auto spectrum = dynamics::decompose(kernel.theta, kernel.rank_tolerance, kernel.precision);
  auto preflight = analysis::analyze(kernel.theta, spectrum, settings);
  preflight.riccati_residual = control::riccati_residual(
      control::design_spectral(spectrum, settings.learning_rate, settings.loss,
                               {settings.q, settings.rho, {}, {}}),
      kernel.theta);
  options.output.text(analysis::to_text(preflight) + fmt::format("  kernel: {}\n", kernel.report));
  options.output.write_json(analysis::to_json(preflight));
  return 0;
}

}  // namespace

std::function<int()> setup_analyze(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->source.add_to(app, /*kernel_from_file=*/true);
  options->design.add_to(app);
  options->machine.add_to(app);
  options->output.add_to(app);
  app.footer(
      "Examples:\n"
      "  cdt analyze --kernel theta.npy --lr 0.1\n"
      "  cdt analyze --kernel theta.npy --labels y.npy --outputs y0.npy --lr 0.1 --json "
      "report.json\n"
      "  cdt analyze --model model.safetensors --inputs x.npy --labels y.npy --lr 0.1");
  return [options] { return run(*options); };
}

}  // namespace cdt::cli
