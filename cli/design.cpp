// cdt design: kernel → gain, with its certificate.
#include <cdt/analysis/preflight.h>
#include <cdt/control/controller.h>
#include <cdt/core/error.h>
#include <cdt/core/io/json.h>
#include <cdt/core/npy.h>
#include <cdt/core/text/format.h>
#include <cdt/core/tolerance.h>
#include <fmt/format.h>

#include "cli/command.h"

namespace cdt::cli {
namespace {

struct DesignCommand {
  KernelSource source;
  DesignOptions design;
  MachineOptions machine;
  OutputOptions output;
  std::string state_weight;
  std::string input_weight;
  std::string out;
  std::string steering;
};

/// The problem that was solved, the certificate and the margins, as text.
std::string describe_design(const DesignCommand& options,
                            const analysis::PreflightOptions& settings,
                            const analysis::Preflight& preflight,
                            const nlohmann::ordered_json& json, const dynamics::Modes& modes) {
  const auto weight = [](const std::string& file, double scale) {
    return file.empty() ? fmt::format("{:g}·I", scale) : file;
  };
  const auto number = [](const nlohmann::ordered_json& value) {
    return value.is_null() ? std::string("∞") : fmt::format("{:.4g}", value.get<double>());
  };
  std::string text =
      fmt::format("{}: gain K {} × {} by the {} solver{}\n", options.out, modes.size(),
                  modes.size(), json["solver"].get<std::string>(),
                  json.contains("iterations")
                      ? fmt::format(" in {} iterations", json["iterations"].get<int64_t>())
                      : "");
  text += fmt::format(
      "  problem        e⁺ = Ae + By_u with A = I − S, B = S = αc_LΘ, α = {:g}, c_L = {:.4g} "
      "({});\n"
      "                 least Σ eᵀQe + y_uᵀRy_u with Q = {}, R = {}; y_u = −Ke\n",
      settings.learning_rate, json["gradient_factor"].get<double>(), to_string(settings.loss),
      weight(options.state_weight, settings.q), weight(options.input_weight, settings.rho));
  text += fmt::format(
      "  certificate    Riccati residual {:.2e}, closed-loop radius {}, {}\n",
      preflight.controller.residual, radius_text(preflight.controller.radius.upper),
      preflight.reachability.reachable
          ? "every direction reachable"
          : fmt::format("{} of {} directions out of reach of any label: run cdt analyze",
                        modes.nullity(), modes.size()));
  text += fmt::format(
      "  kernel margin  stable while the kernel is scaled by less than {} ({} without control)\n",
      number(json["margin_cdt"]), number(json["margin_gd"]));
  if (const auto& margin = json["gain_margin"]; margin.is_object()) {
    text += fmt::format("  gain margin    stable while label augments are scaled by {} to {}\n",
                        margin["lower"].is_null() ? "−∞" : number(margin["lower"]),
                        number(margin["upper"]));
  }
  return text;
}

int run_design(const DesignCommand& options) {
  const torch::Device device = options.machine.apply();
  const LoadedKernel kernel = load_kernel(options.source, device, options.output.quiet);
  analysis::PreflightOptions settings = options.design.load(kernel);
  const auto spectrum = decompose(kernel);
  settings.residual = options.state_weight.empty() && options.input_weight.empty();
  auto preflight = analysis::analyze(kernel.theta, spectrum, settings);
  control::Certificate& found = preflight.controller;
  const control::Plant& plant = *preflight.plant;
  const auto weight = [&](const std::string& path) {
    return path.empty() ? torch::Tensor() : load_matrix(path, device);
  };
  const auto controller = control::design(plant, {.q = settings.q,
                                                  .p = settings.rho,
                                                  .Q = weight(options.state_weight),
                                                  .R = weight(options.input_weight)});
  const auto* weighted = dynamic_cast<const control::GainController*>(controller.get());
  if (weighted != nullptr) {
    found.residual = weighted->gain().residual;
    found.radius = control::Known::exactly(weighted->closed_loop_radius());
    found.kernel_margin =
        control::Known::exactly(analysis::kernel_margin(plant, weighted->matrix()));
  } else if (!(found.residual <= tol::kRiccatiResidual)) {
    throw NumericalError(c10::str("the gain has a Riccati residual of ", found.residual, ", above ",
                                  tol::kRiccatiResidual,
                                  ": rate and weights are too extreme; nothing was written"));
  }
  save_npy(options.out, controller->gain_matrix());
  if (!options.steering.empty()) save_npy(options.steering, controller->matrix());
  nlohmann::ordered_json json = parse_json(analysis::to_json(preflight), "the analysis").raw();
  json["solver"] = "spectral";
  if (weighted != nullptr) {
    // Closed forms of Q = qI, R = pI, which these weights are not.
    for (const char* name : {"gain_slow_modes", "gain_margin", "rates", "q", "p"})
      json[name] = nullptr;
    json["solver"] = "doubling";
    json["iterations"] = weighted->gain().iterations;
  }
  json["gain"] = options.out;
  json["gradient_factor"] = plant.gradient_factor();
  options.output.text(describe_design(options, settings, preflight, json, spectrum));
  options.output.write_json(dump_readably(json));
  return 0;
}

}  // namespace

std::function<int()> setup_design(CLI::App& app) {
  auto options = std::make_shared<DesignCommand>();
  options->source.add_to(app, /*kernel_from_file=*/true);
  options->design.add_to(app);
  app.add_option("--Q", options->state_weight,
                 "weights on errors as .npy, instead of --q: a matrix [n, n] or a diagonal [n]")
      ->type_name(kInputFile)
      ->excludes("--q");
  app.add_option(
         "--R", options->input_weight,
         "weights on label augments as .npy, instead of --p: a matrix [n, n] or a diagonal [n]")
      ->type_name(kInputFile)
      ->excludes("--p");
  app.add_option("--out", options->out, "where to write the gain K [n, n], float64 .npy")
      ->required()
      ->type_name(kOutputFile);
  app.add_option("--steering", options->steering, "also write G = I + K, exact for large rates")
      ->type_name(kOutputFile);
  options->machine.add_to(app);
  options->output.add_to(app);
  app.footer(
      "Train on ȳ = y − K(ŷ − y) instead of y.\n\n"
      "Examples:\n"
      "  cdt design --kernel theta.npy --lr 0.1 --loss sse --p 0.1 --out gain.npy --json -\n"
      "  cdt design --kernel theta.npy --lr 0.1 --Q weights.npy --out gain.npy");
  return [options] { return run_design(*options); };
}

}  // namespace cdt::cli
