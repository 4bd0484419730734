// The pre-flight as a page of text: the verdicts first, then what they mean and what to do.
#include <cdt/analysis/parts/report_page.h>

#include <cmath>

namespace cdt::analysis {
namespace {

using control::Known;

/// Steps after which the slowest mode has lost 90 % of its error.
std::string steps_to_tenth(double radius) {
  if (radius > 1) return "never";
  if (radius == 1) return "more than 1e16 steps";  // rounded: a step shrinks it, but by too little
  if (radius < 0.1) return "1 step";
  const double steps = std::log(0.1) / std::log(radius);
  return steps < 1e6 ? fmt::format("{:.0f} steps", std::ceil(steps))
                     : fmt::format("{:.1e} steps", steps);
}

/// "0.25", or "0.24 to 0.26" where the number is only bounded.
std::string text_of(const Known& number) {
  if (!number.bounded()) return "not known";
  return number.exact() ? fmt::format("{:.6g}", number.upper)
                        : fmt::format("{:.6g} to {:.6g}", number.lower, number.upper);
}

std::string radius_of(const Known& radius) {
  if (!radius.bounded()) return "not known";
  return radius.exact() ? radius_text(radius.upper)
                        : radius_text(radius.lower) + " to " + radius_text(radius.upper);
}

/// "3.2-fold", of a margin of which the lower bound counts.
std::string fold(const Known& margin) {
  return fmt::format("{}{:.3g}-fold", margin.exact() ? "" : "at least ", margin.lower);
}

std::string title(const Preflight& p) {
  const std::string outputs =
      has_classes(p) ? fmt::format("{} classes", p.outputs) : count_of(p.outputs, "output");
  const std::string loss =
      has_classes(p) ? fmt::format("cross-entropy (smoothing {:.4g})", *p.curvature->smoothing)
                     : to_string(p.loss);
  return fmt::format(
      "Pre-flight: {} × {}, loss {},\n  learning rate {:.4g}, p = {:.4g}, q = {:.4g}{}\n\n",
      count_of(p.samples, "sample"), outputs, loss, p.learning_rate, p.rho, p.q,
      p.products ? "; by products with the kernel" : "");
}

void judge_descent(const Preflight& p, Page& page) {
  const Stability& s = p.stability;
  const Known fastest = Known::within(2 / s.margin.upper, 2 / s.margin.lower);  // max s
  constexpr std::string_view kDescent = "gradient descent";
  if (!s.stable && (s.margin.exact() || fastest.lower >= 2)) {
    page.verdict(kDescent, "UNSTABLE", "its fastest mode is multiplied by {:.3g}{} each step",
                 1 - fastest.lower, s.margin.exact() ? "" : " or worse");
  } else if (!s.stable) {
    page.verdict(kDescent, "UNDECIDED",
                 "the rate lies between the bounds on the largest stable one");
  } else if (!s.exponential) {
    page.verdict(kDescent, "MARGINAL",
                 "the fastest mode changes its sign each step and never shrinks");
  } else if (fastest.lower > 1) {
    page.verdict(kDescent, "OSCILLATING",
                 "bounded, but the fastest mode changes sign each step (factor {:.3g})",
                 1 - fastest.upper);
  } else if (fastest.upper > 1) {
    page.verdict(kDescent, "STABLE", "bounded, but the fastest mode may change sign each step");
  } else if (!s.kappa.exact()) {
    page.verdict(kDescent, "STABLE", "no mode oscillates");
  } else {
    page.verdict(kDescent, "STABLE",
                 "every mode shrinks without oscillation; the slowest takes {} to lose 90 %",
                 steps_to_tenth(s.kappa.upper));
  }
}

void judge_control(const Preflight& p, Page& page) {
  constexpr std::string_view kControl = "controlled descent";
  const Known& radius = p.controller.radius;
  if (p.products && !(radius.upper > 1)) {
    page.verdict(kControl, "STABLE", "whatever the modes not found");
  } else if (!radius.bounded()) {
    page.verdict(kControl, "UNDECIDED", "the radius of its loop is not known");
  } else {
    page.verdict(kControl,
                 radius.upper <= 1  ? "STABLE"
                 : radius.lower > 1 ? "UNSTABLE"
                                    : "UNDECIDED",
                 "{}",
                 radius.lower > 1
                     ? "one mode grows at each step"
                     : fmt::format("the slowest mode takes {}{} to lose 90 %",
                                   steps_to_tenth(radius.lower), radius.exact() ? "" : " or more"));
  }
}

/// The loss, and up to which rate gradient descent is stable.
void explain_descent(const Preflight& p, Page& page) {
  const Known& stable = p.rates.stable;
  if (p.state.loss) {
    page.means("The loss is {:.4g} before training{}.", *p.state.loss,
               has_classes(p) ? fmt::format("; always guessing evenly would give {:.4g}",
                                            std::log(static_cast<double>(p.outputs)))
               : p.curvature  ? ". The statements below use its curvature at the outputs before "
                                "training, and hold near them"
                              : "");
  }
  if (p.curvature) {
    const std::string everywhere =
        p.rates.everywhere > 0
            ? fmt::format("; below {:.3g} it is so whatever the outputs, while the kernel stays",
                          p.rates.everywhere)
            : ". The curvature has no bound, so no rate is safe for all outputs";
    page.means("{} gradient descent is stable up to the rate {:.3g} in the local model{}.",
               has_classes(p) ? "Between here and the minimum of the smoothed loss," : "There",
               stable.upper, everywhere);
  } else if (!stable.exact()) {
    page.means(
        "Gradient descent is stable up to a rate of {:.4g} for certain, and unstable beyond "
        "{:.4g}.",
        stable.lower, stable.upper);
  } else if (!p.stability.stable) {
    page.means(
        "Plain gradient descent diverges at {:.3g} in the local model: it tolerates rates up to "
        "{:.3g}.",
        p.learning_rate, stable.upper);
  }
}

void explain_control(const Preflight& p, Page& page) {
  const Known& margin = p.controller.kernel_margin;
  const Known& plain = p.stability.margin;
  const bool unstable = p.controller.radius.lower > 1;
  const std::string damps =
      plain.upper < 2 && !unstable ? " and damps the modes that the rate overdrives" : "";
  page.meaning.push_back(
      unstable
          ? fmt::format("The controller {} does not stabilize the loop at this rate.", p.design)
      : std::isnan(p.gain_slow_modes())
          ? fmt::format("The controller steers errors by their weights{}.", damps)
          : fmt::format(
                "With p/q = {:.3g} the controller makes slow modes learn {:.2f} times faster{}.",
                p.rho / p.q, 1 + p.gain_slow_modes(), damps));
  page.means(
      "Training moves the kernel. The loop keeps its stability until the kernel has grown {}{} "
      "under gradient descent{}.{}",
      margin.bounded() ? fold(margin) + " under CDT, " : "", fold(plain),
      plain.upper < 1 ? " (below 1: unstable already)" : "",
      margin.bounded() ? "" : " Under CDT it is not known.");
}

void advise_on_rates(const Preflight& p, Page& page) {
  const double most = p.rates.stable.lower;
  const double everywhere = p.rates.everywhere;
  if (!p.stability.exponential) {
    page.advise(
        "For plain gradient descent stay below {:.3g}; below {:.3g} nothing oscillates{}.", most,
        p.rates.monotone.lower,
        everywhere > 0 && everywhere < most
            ? fmt::format(", and below {:.3g} it is stable whatever the outputs", everywhere)
            : "");
  } else if (!p.curvature && p.learning_rate < 0.05 * most) {
    page.advise("The rate is small: gradient descent is stable up to {:.3g}.", most);
  }
  const Known& margin = p.controller.kernel_margin;
  if (margin.bounded() && margin.lower < 1.5) {
    page.advise(
        "The margin is thin. A smaller rate or a larger p widens it; or recompute the kernel once "
        "training has moved it.");
  }
}

/// What to do where nothing is wrong.
std::string advice_on_slow_modes(const Preflight& p) {
  constexpr double kMostSteps = 1e5;
  const Known& radius = p.controller.radius;
  const double slowest = 1 - radius.upper;
  if (!radius.exact() || slowest > std::log(10.0) / kMostSteps) {
    return "Nothing stands in the way of training.";
  }
  return fmt::format(
      "Nothing is wrong, but at this rate the slowest modes take {} even under control. To fit "
      "them, let the method guarded choose its rate; to predict new rows, leave them: a decay "
      "towards the start does.",
      steps_to_tenth(radius.upper));
}

void describe_loop(const Preflight& p, Page& page) {
  if (p.spectrum.largest.upper <= 0) {
    page.verdict("gradient descent", "FROZEN", "the kernel is zero: no step changes any output");
    page.advise(
        "Nothing can be learned from this state. Check the initialisation (all weights zero, or "
        "every unit dead).");
    return;
  }
  judge_descent(p, page);
  judge_control(p, page);
  explain_descent(p, page);
  explain_control(p, page);
  advise_on_rates(p, page);
}

void list_numbers(const Preflight& p, Page& page) {
  const Spectrum& s = p.spectrum;
  page.number("\n{}\n  {}λ_max {}   ", p.products ? "Known for certain, up to rounding" : "Numbers",
              p.curvature ? "of H^½ΘH^½: " : "", text_of(s.largest));
  if (p.products) {
    page.number("tr Θ {:.6g}   rank {} of {} (at least that of {})\n", p.products->trace,
                text_of(p.reachability.rank), p.n, count_of(p.products->sampled_rows, "row"));
  } else {
    page.number("λ_min {:.3g}   rank {} of {} (tolerance {:.1e} λ_max)\n", s.smallest.value,
                text_of(p.reachability.rank), p.n, s.rank_tolerance);
  }
  page.number("  κ of gradient descent {} (γ = 1)   radius under CDT {}\n",
              radius_of(p.stability.kappa), radius_of(p.controller.radius));
  page.number("  largest stable rate {}   largest without oscillation {}{}\n",
              text_of(p.rates.stable), text_of(p.rates.monotone),
              p.rates.everywhere > 0
                  ? fmt::format("   safe in every state {:.6g}", p.rates.everywhere)
                  : "");
  if (!std::isnan(p.controller.residual)) {
    page.number("  {} residual {:.2e}\n", p.acts ? "controller's" : "Riccati",
                p.controller.residual);
  }
  if (p.acts) {
    page.number("  controller: {}\n", p.controller.controller);
    const std::string& optimal = p.controller.optimal;
    if (!optimal.empty()) page.number("  makes least: {}\n", optimal);
  }
}

void list_estimates(const ByProducts& found, Page& page) {
  const auto about = [](const dynamics::TraceEstimate& estimate) {
    return fmt::format("{:.4g} ± {:.2g}", estimate.value, estimate.error);
  };
  page.number("\nEstimated, with standard errors\n  effective rank (tr Θ)²/tr Θ²: {}\n",
              about(found.effective_rank));
  page.number("  effective parameters tr Θ(Θ + τI)⁻¹ at a decay τ, in mean eigenvalues:\n");
  for (const FreedomAt& each : found.freedom) {
    page.number("    τ = {:<8.4g} {}\n", each.decay, about(each.freedom));
  }
  page.number("  eigenvalues by decades below λ_max:\n");
  for (const Decade& decade : found.density) {
    page.number("    {:>5.0e} to {:<5.0e}  {}\n", decade.from, 10 * decade.from,
                about(decade.count));
  }
  page.number("    below            {}\n  {} products with the kernel in {:.1f} s\n",
              about(found.below), found.products, found.seconds);
}

}  // namespace

std::string to_text(const Preflight& p) {
  Page page;
  describe_loop(p, page);
  describe_reach(p, page);
  list_numbers(p, page);
  describe_outlook(p, page);
  if (p.products) list_estimates(*p.products, page);
  std::string out = title(p) + page.verdicts;
  append_section(out, "What it means", page.meaning);
  if (page.advice.empty()) page.advice.push_back(advice_on_slow_modes(p));
  append_section(out, "What to do", page.advice);
  out = wrap(out + page.rates + page.numbers, 4);
  if (!p.origin.kernel.empty()) out += fmt::format("  kernel: {}\n", p.origin.kernel);
  return out;
}

}  // namespace cdt::analysis
