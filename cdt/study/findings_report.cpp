#include <cdt/analysis/report.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/core/text/format.h>
#include <cdt/study/findings.h>

#include <tuple>

namespace cdt::study {
namespace {

using nlohmann::ordered_json;

/// Of the loop in the loss's own coordinates.
std::string loop_verdicts(const analysis::Preflight& found, const char* all_reachable) {
  const double fastest = 2 / found.margins.gd;
  std::string text;
  text += !found.stability.stable
              ? verdict_line(
                    "gradient descent", "UNSTABLE",
                    fmt::format("its fastest mode is multiplied by {:.3g} each step", 1 - fastest))
          : !found.stability.exponential
              ? verdict_line("gradient descent", "MARGINAL", "its fastest mode never shrinks")
          : fastest > 1 ? verdict_line("gradient descent", "OSCILLATING",
                                       "bounded, but the fastest mode changes sign each step")
                        : verdict_line("gradient descent", "STABLE", "no mode oscillates");
  text +=
      verdict_line("controlled descent", found.radius_cdt <= 1 ? "STABLE" : "UNSTABLE",
                   fmt::format("slow modes learn {:.2f} times faster", 1 + found.gain_slow_modes));
  return text + (found.reachability.reachable
                     ? verdict_line("reachability", "YES", all_reachable)
                     : verdict_line("reachability", "NO",
                                    fmt::format("{} of {} directions cannot be moved by any label",
                                                found.n - found.reachability.rank, found.n)));
}

std::string kernel_meaning(const analysis::Preflight& found) {
  return fmt::format(
      "Training moves the kernel. The loop keeps its stability until the kernel has grown "
      "{:.3g}-fold "
      "under CDT, {:.3g}-fold under gradient descent{}.",
      found.margins.cdt, found.margins.gd,
      found.margins.gd < 1 ? " (below 1: unstable already)" : "");
}

std::vector<std::string> class_meaning(const analysis::Preflight& found,
                                       const ClassFindings& classes) {
  return {
      fmt::format("The loss is {:.4g} before training; always guessing evenly would give {:.4g}.",
                  classes.initial_loss, std::log(static_cast<double>(found.outputs))),
      fmt::format("Between here and the minimum of the smoothed loss, gradient descent is stable "
                  "up to the rate {:.3g} in the local model; below {:.3g} it is so whatever the "
                  "outputs, while the kernel stays.",
                  found.lr_max, classes.safe_rate),
      kernel_meaning(found)};
}

std::vector<std::string> curved_meaning(const analysis::Preflight& found,
                                        const CurvedFindings& curved) {
  std::vector<std::string> meaning{
      fmt::format("The loss is {:.4g} before training. The statements below use its curvature at "
                  "the outputs before training, and hold near them.",
                  curved.initial_loss),
      fmt::format(
          "There gradient descent is stable up to the rate {:.3g}{}.", found.lr_max,
          curved.safe_rate > 0
              ? fmt::format("; below {:.3g} it is so whatever the outputs, while the kernel stays",
                            curved.safe_rate)
              : ". The curvature has no bound, so no rate is safe for all outputs"),
      kernel_meaning(found)};
  if (curved.flat > 0) {
    meaning.push_back(fmt::format(
        "For {} the loss has no curvature there: descent moves {}, but no faster the farther off.",
        count_of(curved.flat, "sample"), curved.flat == 1 ? "it" : "them"));
  }
  return meaning;
}

std::vector<std::string> loop_advice(const analysis::Preflight& found, double safe_rate,
                                     std::vector<std::string> advice,
                                     const std::vector<ConflictingRows>& conflicts,
                                     const std::string& source) {
  if (found.margins.gd < 1) {
    advice.push_back(
        fmt::format("For plain gradient descent stay below a rate of {:.3g}{}.", found.lr_max,
                    safe_rate > 0 && safe_rate < found.lr_max
                        ? fmt::format("; below {:.3g} it is stable whatever the outputs", safe_rate)
                        : ""));
  }
  for (const ConflictingRows& rows : conflicts) {
    advice.push_back(fmt::format("Lines {} of {} are equal in every feature, but {}.",
                                 list_rows(rows.lines), source, rows.difference));
    constexpr size_t kMost = 8;
    if (advice.size() < kMost) continue;
    advice.emplace_back("… and more such rows.");
    break;
  }
  if (advice.empty()) advice.emplace_back("Nothing stands in the way of training.");
  return advice;
}

std::string loop_text(const Findings& findings) {
  const analysis::Preflight& found = findings.preflight;
  const auto& [classes, curved] = std::tie(findings.classes, findings.curved);
  const std::string what =
      classes ? fmt::format("classes, loss cross-entropy (smoothing {:.4g})", classes->smoothing)
              : fmt::format("outputs, loss {}", to_string(found.loss));
  std::string text =
      fmt::format("Pre-flight: {} × {} {},\n  learning rate {:.4g}, p = {:.4g}, q = {:.4g}\n\n",
                  count_of(found.samples, "sample"), found.outputs, what, found.learning_rate,
                  found.rho, found.q);
  text += loop_verdicts(found, classes ? "every class can be fitted on every row"
                                       : "every output can be moved to where its loss is least");
  append_section(text, "What it means",
                 classes ? class_meaning(found, *classes) : curved_meaning(found, *curved));
  const double safe = classes ? classes->safe_rate : curved->safe_rate;
  append_section(text, "What to do",
                 loop_advice(found, safe, classes ? classes->warnings : std::vector<std::string>(),
                             classes ? classes->conflicts : curved->conflicts, findings.source));
  return wrap(
      text +
          fmt::format(
              "\nNumbers\n  of H^½ΘH^½: λ_max {:.6g}   λ_min {:.3g}   rank {} of {}\n"
              "  κ of gradient descent {}   radius under CDT {}\n"
              "  largest stable rate {:.6g}   largest without oscillation {:.6g}{}\n  kernel: {}\n",
              found.lambda_max, found.lambda_min, found.reachability.rank, found.n,
              radius_text(found.stability.kappa), radius_text(found.radius_cdt), found.lr_max,
              found.lr_monotone, safe > 0 ? fmt::format("   safe in every state {:.6g}", safe) : "",
              findings.kernel) +
          analysis::to_text(found.controller),
      4);
}

ordered_json loop_json(const Findings& findings) {
  const analysis::Preflight& found = findings.preflight;
  const auto& [classes, curved] = std::tie(findings.classes, findings.curved);
  const double safe = classes ? classes->safe_rate : curved->safe_rate;
  ordered_json json{{"n", found.n},
                    {"samples", found.samples},
                    {"outputs", found.outputs},
                    {"loss", to_string(found.loss)}};
  if (classes) json["smoothing"] = classes->smoothing;
  json.update(
      ordered_json{{"lr", found.learning_rate},
                   {"q", found.q},
                   {"p", found.rho},
                   {"lambda_max", found.lambda_max},
                   {"lambda_min", found.lambda_min},
                   {"rank", found.reachability.rank},
                   {"rank_tolerance", found.rank_tolerance},
                   {"reachable", found.reachability.reachable},
                   {"stable", found.stability.stable},
                   {"strictly_contracting", found.stability.strictly_contracting},
                   {"lr_max", number_or_null(found.lr_max)},
                   {"lr_monotone", number_or_null(found.lr_monotone)},
                   {"lr_max_everywhere", number_or_null(safe > 0 ? safe : NAN)},
                   {"radius_gd", found.stability.kappa},
                   {"radius_cdt", found.radius_cdt},
                   {"margin_gd", number_or_null(found.margins.gd)},
                   {"margin_cdt", number_or_null(found.margins.cdt)},
                   {"gain_slow_modes", found.gain_slow_modes},
                   {"initial_loss", classes ? classes->initial_loss : curved->initial_loss}});
  if (curved) json["flat"] = curved->flat;
  json["conflicts"] = ordered_json::array();
  if (!found.controller.empty()) json["controller"] = to_json_value(found.controller);
  for (const ConflictingRows& rows : classes ? classes->conflicts : curved->conflicts) {
    json["conflicts"].push_back({{"lines", rows.lines}, {"kind", "duplicate-conflict"}});
  }
  return json;
}

}  // namespace

std::string to_text(const Findings& findings) {
  if (findings.classes || findings.curved) return loop_text(findings);
  return analysis::to_text(findings.preflight, {findings.source, findings.lines}) +
         fmt::format("  kernel: {}\n", findings.kernel);
}

std::string to_json(const Findings& findings) {
  if (!findings.classes && !findings.curved) return analysis::to_json(findings.preflight);
  return loop_json(findings).dump(2);
}

}  // namespace cdt::study
