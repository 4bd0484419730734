#include "cli/class_analysis.h"

#include <cdt/analysis/report_page.h>
#include <cdt/analysis/stability.h>
#include <cdt/core/error.h>
#include <cdt/core/format.h>
#include <cdt/core/tolerance.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/classes.h"

namespace cdt::cli {
namespace {

using nlohmann::ordered_json;
using torch::Tensor;

std::string class_verdict(const char* subject, const char* word, const std::string& detail) {
  return fmt::format("  {:<20}{:<14}{}\n", subject, word, detail);
}

}  // namespace

ClassFindings analyze_classes(const Problem& problem, const AnalysisOptions& options, bool quiet) {
  kernel::NtkOptions ntk_options;
  ntk_options.memory_bytes = options.memory_mb << 20;
  ntk_options.progress = [show = progress("kernel", "blocks", quiet)](int64_t done, int64_t total) {
    show(done, total, "");
  };
  const auto ntk = kernel::empirical_ntk(problem.model, problem.data.x, ntk_options);
  const Tensor logits = ntk.outputs.to(torch::kFloat64);
  const auto plant = control::linearize_cross_entropy(ntk.theta, logits, problem.data.y,
                                                      options.smoothing, ntk.network_dtype);
  const auto r = static_cast<double>(plant.samples);
  const double largest = torch::linalg_eigvalsh(ntk.theta).max().item<double>();
  const double everywhere = largest > 0 ? 4 * r / largest : INFINITY;  // ‖∂²L/∂ŷ²‖ ≤ 1/(2r)
  const auto method = train::parse_method(options.method);
  const double unit = train::is_controlled(method) ? plant.unit_rate() : everywhere / 2;
  const double rate = options.learning_rate.value_or(train::start_rate(method, unit));
  const auto stability = analysis::assess_stability(plant.modes, rate / r);
  const auto controller =
      control::design_spectral(plant.modes, rate / r, {options.q, options.p, {}, {}});
  const auto margins = analysis::kernel_margins(controller);
  const int64_t m = plant.modes.size();
  const bool reachable = plant.modes.rank == m;
  const double fastest = 2 / margins.gd;
  const double slow = control::gain_of_slow_modes(options.q, options.p);
  const double loss = dynamics::output_loss(dynamics::Loss::kCrossEntropy, logits,
                                            problem.data.y.to(torch::kFloat64));

  std::string text = fmt::format(
      "Pre-flight: {} × {} classes, loss cross-entropy (smoothing {:.4g}), learning rate {:.4g}, p "
      "= {:.4g}, q = {:.4g}\n\n",
      count_of(plant.samples, "sample"), plant.classes, options.smoothing, rate, options.p,
      options.q);
  text += !stability.stable
              ? class_verdict(
                    "gradient descent", "UNSTABLE",
                    fmt::format("its fastest mode is multiplied by {:.3g} each step", 1 - fastest))
          : !stability.exponential
              ? class_verdict("gradient descent", "MARGINAL", "its fastest mode never shrinks")
          : fastest > 1 ? class_verdict("gradient descent", "OSCILLATING",
                                        "bounded, but the fastest mode changes sign each step")
                        : class_verdict("gradient descent", "STABLE", "no mode oscillates");
  text += class_verdict("controlled descent",
                        controller.closed_loop_radius() <= 1 ? "STABLE" : "UNSTABLE",
                        fmt::format("slow modes learn {:.2f} times faster", 1 + slow));
  text += reachable ? class_verdict("reachability", "YES", "every class can be fitted on every row")
                    : class_verdict("reachability", "NO",
                                    fmt::format("{} of {} directions cannot be moved by any label",
                                                m - plant.modes.rank, m));
  std::vector<std::string> meaning{
      fmt::format("The loss is {:.4g} before training; always guessing evenly would give {:.4g}.",
                  loss, std::log(static_cast<double>(plant.classes)))};
  meaning.push_back(fmt::format(
      "Between here and the minimum of the smoothed loss, gradient descent is stable up to the "
      "rate "
      "{:.3g} in the local model; below {:.3g} it is so whatever the outputs, while the kernel "
      "stays.",
      stability.scale_max * r, everywhere));
  meaning.push_back(fmt::format(
      "Training moves the kernel. The loop keeps its stability until the kernel has grown "
      "{:.3g}-fold under CDT, {:.3g}-fold under gradient descent{}.",
      margins.cdt, margins.gd, margins.gd < 1 ? " (below 1: unstable already)" : ""));
  analysis::append_section(text, "What it means", meaning);
  std::vector<std::string> advice = classes_without_rows(problem);
  for (const ConflictingRows& rows : problem.conflicts) {
    advice.push_back(fmt::format("Lines {} of {} are equal in every feature, but {}.",
                                 fmt::join(rows.lines, ", "), problem.table.source,
                                 rows.difference));
    constexpr size_t kMost = 8;
    if (advice.size() < kMost) continue;
    advice.emplace_back("… and more such rows: cdt data describe lists them.");
    break;
  }
  if (advice.empty()) advice.emplace_back("Nothing stands in the way of training.");
  analysis::append_section(text, "What to do", advice);
  const double lambda_min = plant.modes.smallest;
  text += fmt::format(
      "\nNumbers\n  of H^½ΘH^½: λ_max {:.6g}   λ_min {:.3g}   rank {} of {}\n"
      "  κ of gradient descent {}   radius under CDT {}\n"
      "  largest stable rate {:.6g}   largest without oscillation {:.6g}   safe in every state "
      "{:.6g}\n  kernel: {}\n",
      plant.modes.largest(), lambda_min, plant.modes.rank, m, radius_text(stability.kappa),
      radius_text(controller.closed_loop_radius()), stability.scale_max * r,
      stability.scale_monotone * r, everywhere, ntk.brief_report());

  ordered_json json{{"n", m},
                    {"samples", plant.samples},
                    {"outputs", plant.classes},
                    {"loss", "cross-entropy"},
                    {"smoothing", options.smoothing},
                    {"lr", rate},
                    {"q", options.q},
                    {"p", options.p},
                    {"lambda_max", plant.modes.largest()},
                    {"lambda_min", lambda_min},
                    {"rank", plant.modes.rank},
                    {"rank_tolerance", plant.modes.rank_tolerance},
                    {"reachable", reachable},
                    {"stable", stability.stable},
                    {"strictly_contracting", stability.strictly_contracting},
                    {"lr_max", number_or_null(stability.scale_max * r)},
                    {"lr_monotone", number_or_null(stability.scale_monotone * r)},
                    {"lr_max_everywhere", number_or_null(everywhere)},
                    {"radius_gd", stability.kappa},
                    {"radius_cdt", controller.closed_loop_radius()},
                    {"margin_gd", number_or_null(margins.gd)},
                    {"margin_cdt", number_or_null(margins.cdt)},
                    {"gain_slow_modes", slow},
                    {"initial_loss", loss},
                    {"conflicts", ordered_json::array()}};
  for (const ConflictingRows& rows : problem.conflicts) {
    json["conflicts"].push_back({{"lines", rows.lines}, {"kind", "duplicate-conflict"}});
  }
  return {text, json};
}

}  // namespace cdt::cli
