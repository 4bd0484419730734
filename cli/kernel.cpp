// cdt kernel: writes Θ as .npy.
#include <cdt/core/io/json.h>
#include <cdt/core/npy.h>
#include <fmt/format.h>

#include "cli/command.h"

namespace cdt::cli {
namespace {

struct KernelCommand {
  KernelSource source;
  MachineOptions machine;
  OutputOptions output;
  std::string other_inputs;
  std::string out;
  std::string outputs;
};

int run_kernel(const KernelCommand& options) {
  const torch::Device device = options.machine.apply();
  const nn::Network model = load_model(options.source.model, device);
  const torch::Tensor x = load_inputs(options.source.inputs, model);
  const auto settings = options.source.ntk_options(options.output.quiet);
  const auto ntk =
      options.other_inputs.empty()
          ? kernel::empirical_ntk(model, x, settings)
          : kernel::empirical_ntk(model, x, load_inputs(options.other_inputs, model), settings);
  save_npy(options.out, ntk.theta);
  if (!options.outputs.empty()) save_npy(options.outputs, ntk.outputs);
  options.output.text(fmt::format("{}: {} × {}, {}\n", options.out, ntk.theta.size(0),
                                  ntk.theta.size(1), ntk.brief_report()));
  options.output.write_json(dump_readably({{"kernel", options.out},
                                           {"rows", ntk.theta.size(0)},
                                           {"columns", ntk.theta.size(1)},
                                           {"samples", ntk.outputs.size(0)},
                                           {"outputs", ntk.outputs.size(1)},
                                           {"self_check", ntk.self_check},
                                           {"report", ntk.brief_report()}}));
  return 0;
}

}  // namespace

std::function<int()> setup_kernel(CLI::App& app) {
  auto options = std::make_shared<KernelCommand>();
  options->source.add_to(app, /*kernel_from_file=*/false);
  app.get_option("--model")->required();
  app.get_option("--inputs")->required();
  app.add_option("--other-inputs", options->other_inputs,
                 "x′ [r′, features] as .npy: writes Θ(x, x′) instead of Θ(x, x)")
      ->type_name(kInputFile);
  app.add_option("--out", options->out, "where to write the kernel, float64 .npy")
      ->required()
      ->type_name(kOutputFile);
  app.add_option("--save-outputs", options->outputs,
                 "also write the network's outputs ŷ [r, n_L] on the inputs")
      ->type_name(kOutputFile);
  options->machine.add_to(app);
  options->output.add_to(app);
  app.footer("Example:\n  cdt kernel --model model.safetensors --inputs x.npy --out theta.npy");
  return [options] { return run_kernel(*options); };
}

}  // namespace cdt::cli
