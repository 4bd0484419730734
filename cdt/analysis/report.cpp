#include <cdt/analysis/parts/report_page.h>
#include <cdt/analysis/report.h>
#include <cdt/core/io/json_fields.h>
#include <cdt/core/text/format.h>
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <map>

namespace cdt::analysis {
namespace {

using Json = nlohmann::ordered_json;

/// Steps after which the slowest mode has lost 90 % of its error.
std::string steps_to_tenth(double radius) {
  if (radius > 1) return "never";
  if (radius == 1) return "more than 1e16 steps";  // rounded: a step shrinks it, but by too little
  if (radius < 0.1) return "1 step";
  const double steps = std::log(0.1) / std::log(radius);
  return steps < 1e6 ? fmt::format("{:.0f} steps", std::ceil(steps))
                     : fmt::format("{:.1e} steps", steps);
}

/// What to do where nothing is wrong.
std::string advice_on_slow_modes(const Preflight& p) {
  constexpr double kMostSteps = 1e5;
  const double slowest = 1 - p.radius_cdt;
  if (slowest > std::log(10.0) / kMostSteps) return "Nothing stands in the way of training.";
  return fmt::format(
      "Nothing is wrong, but at this rate the slowest modes take {} even under control. To fit "
      "them, "
      "let the method guarded choose its rate; to predict new rows, leave them: a decay towards "
      "the "
      "start does.",
      steps_to_tenth(p.radius_cdt));
}

void describe_descent(const Preflight& p, Page& page) {
  const Stability& s = p.stability;
  const double fastest = 2 / p.margins.gd;  // max s
  if (p.lambda_max <= 0) {
    page.verdict("gradient descent", "FROZEN", "the kernel is zero: no step changes any output");
    page.advice.emplace_back(
        "Nothing can be learned from this state. Check the initialisation (all weights zero, or "
        "every unit dead).");
    return;
  }
  if (!s.stable) {
    page.verdict("gradient descent", "UNSTABLE",
                 fmt::format("its fastest mode is multiplied by {:.3g} each step", 1 - fastest));
    page.meaning.push_back(
        fmt::format("Plain gradient descent diverges at {:.3g} in the local model: it tolerates "
                    "rates up to {:.3g}.",
                    p.learning_rate, p.lr_max));
  } else if (!s.exponential) {
    page.verdict("gradient descent", "MARGINAL",
                 "the fastest mode changes its sign each step and never shrinks");
  } else if (fastest > 1) {
    page.verdict("gradient descent", "OSCILLATING",
                 fmt::format("bounded, but the fastest mode changes sign each step (factor {:.3g})",
                             1 - fastest));
  } else {
    page.verdict(
        "gradient descent", "STABLE",
        fmt::format("every mode shrinks without oscillation; the slowest takes {} to lose 90 %",
                    steps_to_tenth(s.kappa)));
  }
  page.verdict("controlled descent", p.radius_cdt <= 1 ? "STABLE" : "UNSTABLE",
               fmt::format("the slowest mode takes {} to lose 90 %", steps_to_tenth(p.radius_cdt)));
  const std::string damps = fastest > 1 ? " and damps the modes that the rate overdrives" : "";
  page.meaning.push_back(
      std::isnan(p.gain_slow_modes)
          ? fmt::format("The controller steers errors by their weights{}.", damps)
          : fmt::format(
                "With p/q = {:.3g} the controller makes slow modes learn {:.2f} times faster{}.",
                p.rho / p.q, 1 + p.gain_slow_modes, damps));
  page.meaning.push_back(fmt::format(
      "Training moves the kernel. The loop keeps its stability until the kernel has grown {}"
      "{:.3g}-fold under gradient descent{}.{}",
      std::isnan(p.margins.cdt) ? "" : fmt::format("{:.3g}-fold under CDT, ", p.margins.cdt),
      p.margins.gd, p.margins.gd < 1 ? " (below 1: unstable already)" : "",
      std::isnan(p.margins.cdt) ? " Under CDT it is not known." : ""));
  if (!s.exponential) {
    page.advice.push_back(fmt::format(
        "For plain gradient descent stay below {:.3g}; below {:.3g} nothing oscillates.", p.lr_max,
        p.lr_monotone));
  } else if (p.learning_rate < 0.05 * p.lr_max) {
    page.advice.push_back(
        fmt::format("The rate is small: gradient descent is stable up to {:.3g}.", p.lr_max));
  }
  if (p.margins.cdt < 1.5) {
    page.advice.emplace_back(
        "The margin is thin. A smaller rate or a larger p widens it; or recompute the kernel once "
        "training has moved it.");
  }
}

/// "samples 3, 17 (lines 40, 8 of houses.csv)"
std::string name_samples(const std::vector<int64_t>& rows, const SampleOrigin& origin) {
  std::string text = "samples " + list_rows(rows);
  if (origin.lines.empty()) return text;
  std::vector<int64_t> lines;
  for (const int64_t row : rows) lines.push_back(origin.lines.at(static_cast<size_t>(row)));
  return text + fmt::format(" (lines {} of {})", list_rows(lines), origin.source);
}

void describe_conflict(const Conflict& c, const SampleOrigin& origin, Page& page) {
  const std::string samples = name_samples(c.rows, origin);
  switch (c.kind) {
    case Conflict::Kind::kDuplicateEqual:
      page.meaning.push_back(fmt::format(
          "The {} are the same to the network and carry the same label: harmless.", samples));
      break;
    case Conflict::Kind::kDuplicateConflict:
      page.advice.push_back(
          fmt::format("Look at {}: the same input with labels up to {:.3g} apart. At best their "
                      "mean is learned.",
                      samples, c.label_gap));
      break;
    case Conflict::Kind::kDuplicate:
      page.meaning.push_back(
          fmt::format("The {} are the same to the network; if their labels differ, at best the "
                      "mean is learned.",
                      samples));
      break;
    case Conflict::Kind::kFrozen:
      page.advice.push_back(
          fmt::format("The {}: no parameter moves the network's output there. Are all units dead "
                      "for these inputs?",
                      samples));
      break;
    case Conflict::Kind::kDependent:
      page.advice.push_back(
          fmt::format("The {} depend linearly on each other without being duplicates: a wider "
                      "network would tell them apart.",
                      samples));
      break;
  }
}

/// Each kind a few times.
void describe_conflicts(const std::vector<Conflict>& conflicts, const SampleOrigin& origin,
                        Page& page) {
  constexpr size_t kShown = 6;
  std::map<Conflict::Kind, size_t> count;
  for (const Conflict& conflict : conflicts) {
    if (++count[conflict.kind] <= kShown) describe_conflict(conflict, origin, page);
  }
  for (const auto& [kind, found] : count) {
    if (found <= kShown) continue;
    auto& section = kind == Conflict::Kind::kDuplicateEqual || kind == Conflict::Kind::kDuplicate
                        ? page.meaning
                        : page.advice;
    section.push_back(fmt::format("… and {} more groups of samples like these.", found - kShown));
  }
}

void describe_reach(const Preflight& p, const SampleOrigin& origin, Page& page) {
  const int64_t lost = p.n - p.reachability.rank;
  if (p.reachability.reachable) {
    page.verdict(
        "reachability", "YES",
        fmt::format("every label can be fitted; λ_min/λ_max = {:.2e}", p.reachability.margin));
    page.meaning.emplace_back(
        "A reachable network can fit its training labels exactly, noise included: watch the "
        "validation error.");
  } else {
    page.verdict("reachability", "NO",
                 fmt::format("{} of {} directions cannot be moved by any label", lost, p.n));
  }
  if (p.stabilizability && !p.reachability.reachable) {
    page.verdict("stabilizability", p.stabilizability->stabilizable ? "YES" : "NO",
                 p.stabilizability->stabilizable
                     ? "these labels ask for nothing that is out of reach"
                     : fmt::format("an error of norm {:.3g} stays, whatever the training",
                                   p.stabilizability->stuck_error));
  } else if (!p.stabilizability) {
    page.verdict("stabilizability", "UNKNOWN",
                 "needs the labels and the network's present outputs");
  }
  describe_conflicts(p.conflicts, origin, page);
  if (p.stability.stable && p.reach_size && p.label_norm && *p.label_norm > 0) {
    page.meaning.push_back(
        fmt::format("The local model can be brought onto the labels in {} steps with label changes "
                    "of total size {:.3g}, {:.2g} times the labels' own.",
                    p.reach_steps, *p.reach_size, *p.reach_size / *p.label_norm));
  }
}

void describe_inputs(const InputCondition& c, Page& page) {
  if (c.holds) {
    page.verdict("inputs", "DISTINCT",
                 "no two are parallel and all lie in the unit ball: enough for a definite kernel");
    return;
  }
  page.verdict(
      "inputs", "NOT COVERED",
      fmt::format("largest norm {:.3g} (sample {}), largest |cos| {:.9f} (samples {} and {})",
                  c.largest_norm, c.largest_row, c.largest_cosine, c.first_row, c.second_row));
  page.meaning.emplace_back(
      "The paper's sufficient condition for a definite kernel (inputs in the unit ball, no two "
      "parallel) does not hold; the rank above decides.");
}

}  // namespace

void Page::verdict(std::string_view subject, std::string_view word, const std::string& detail) {
  verdicts += verdict_line(subject, word, detail);
}

std::string to_text(const control::Certificate& controller) {
  if (controller.empty()) return "";
  std::string out = fmt::format("  controller: {}\n", controller.controller);
  if (!controller.optimal.empty()) out += fmt::format("  makes least: {}\n", controller.optimal);
  return out;
}

std::string to_text(const Preflight& p, const SampleOrigin& origin) {
  Page page;
  describe_descent(p, page);
  describe_reach(p, origin, page);
  if (p.input_condition) describe_inputs(*p.input_condition, page);
  describe_findings(p, page);
  std::string out = fmt::format(
      "Pre-flight: {} sample{} × {} output{}, loss {},\n"
      "  learning rate {:.4g}, p = {:.4g}, q = {:.4g}\n\n",
      p.samples, p.samples == 1 ? "" : "s", p.outputs, p.outputs == 1 ? "" : "s", to_string(p.loss),
      p.learning_rate, p.rho, p.q);
  out += page.verdicts;
  append_section(out, "What it means", page.meaning);
  if (page.advice.empty()) page.advice.push_back(advice_on_slow_modes(p));
  append_section(out, "What to do", page.advice);
  out += page.rates;
  out += fmt::format(
      "\nNumbers\n  λ_max {:.6g}   λ_min {:.3g}   rank {} of {} (tolerance {:.1e} λ_max)\n"
      "  κ of gradient descent {} (γ = 1)   radius under CDT {}\n"
      "  largest stable rate {:.6g}   largest without oscillation {:.6g}\n",
      p.lambda_max, p.lambda_min, p.reachability.rank, p.n, p.rank_tolerance,
      radius_text(p.stability.kappa), radius_text(p.radius_cdt), p.lr_max, p.lr_monotone);
  if (p.riccati_residual) {
    out += fmt::format("  {} residual {:.2e}\n", p.controller.empty() ? "Riccati" : "controller's",
                       *p.riccati_residual);
  }
  out += to_text(p.controller);
  return wrap(out + page.numbers, 4);
}

std::string to_json(const Preflight& p) {
  Json json;
  json["n"] = p.n;
  json["samples"] = p.samples;
  json["outputs"] = p.outputs;
  json["loss"] = to_string(p.loss);
  json["lr"] = p.learning_rate;
  json["q"] = p.q;
  json["p"] = p.rho;
  json["lambda_max"] = p.lambda_max;
  json["lambda_min"] = p.lambda_min;
  json["rank"] = p.reachability.rank;
  json["rank_tolerance"] = p.rank_tolerance;
  json["reachable"] = p.reachability.reachable;
  json["reachability_margin"] = p.reachability.margin;
  json["stabilizable"] = p.stabilizability ? Json(p.stabilizability->stabilizable) : Json(nullptr);
  json["stuck_error"] = p.stabilizability ? Json(p.stabilizability->stuck_error) : Json(nullptr);
  json["stable"] = p.stability.stable;
  json["exponentially_stable"] = p.stability.exponential;
  json["strictly_contracting"] = p.stability.strictly_contracting;
  json["lr_max"] = number_or_null(p.lr_max);
  json["lr_monotone"] = number_or_null(p.lr_monotone);
  json["kappa"] = p.stability.kappa;
  json["gamma"] = p.stability.gamma;
  json["radius_gd"] = p.stability.kappa;
  json["radius_cdt"] = p.radius_cdt;
  json["margin_gd"] = number_or_null(p.margins.gd);
  json["margin_cdt"] = number_or_null(p.margins.cdt);
  json["gain_slow_modes"] = p.gain_slow_modes;
  json["riccati_residual"] = p.riccati_residual ? Json(*p.riccati_residual) : Json(nullptr);
  json["reach_steps"] = p.reach_steps;
  json["reach_size"] = p.reach_size ? number_or_null(*p.reach_size) : Json(nullptr);
  if (p.input_condition) {
    const InputCondition& c = *p.input_condition;
    json["input_condition"] = {{"holds", c.holds},
                               {"largest_norm", c.largest_norm},
                               {"largest_norm_row", c.largest_row},
                               {"largest_cosine", c.largest_cosine},
                               {"largest_cosine_rows", {c.first_row, c.second_row}}};
  }
  json["conflicts"] = Json::array();
  for (const Conflict& c : p.conflicts) {
    json["conflicts"].push_back({{"rows", c.rows},
                                 {"kind", to_string(c.kind)},
                                 {"label_gap", number_or_null(c.label_gap)}});
  }
  if (!p.controller.empty()) json["controller"] = to_json_value(p.controller);
  add_findings(p, json);
  return json.dump(2);
}

}  // namespace cdt::analysis
