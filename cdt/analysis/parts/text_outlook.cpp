// The second half of the pre-flight page: equilibrium, new rows, trials, forecast, other rates.
#include <cdt/analysis/parts/report_page.h>

#include <cmath>

namespace cdt::analysis {
namespace {

/// A local model that misses less than this share of the way is good enough to plan with.
constexpr double kGoodShare = 0.1;

std::string_view name(const TrialFindings& trial) { return trial.controlled ? "CDT" : "GD"; }

void describe_equilibrium(const Equilibrium& e, Page& page) {
  switch (e.kind) {
    case Equilibrium::Kind::kNone:
      return;
    case Equilibrium::Kind::kLossMinimum:
      page.verdict("equilibrium", "LEARNED", "the outputs are at the labels already");
      return;
    case Equilibrium::Kind::kFrozen:
      page.verdict("equilibrium", "FROZEN", "the learning rate is zero");
      return;
    case Equilibrium::Kind::kNullKernel:
      page.verdict("equilibrium", "NULL KERNEL", "no parameter moves any output");
      return;
    case Equilibrium::Kind::kNullSpace:
      page.verdict("equilibrium", "STUCK", "the whole error lies where no label moves an output");
      page.advise(
          "Training stands still although samples {} are not learned: tell their inputs apart, or "
          "look at their labels.",
          list_rows(e.rows));
      return;
  }
}

void describe_trial(const TrialFindings& t, Page& page) {
  if (t.diverged) {
    page.verdict(fmt::format("trial of {}", name(t)), "DIVERGED",
                 "outputs were not finite after {} steps", t.steps);
    return;
  }
  page.verdict(fmt::format("trial of {}", name(t)),
               t.kc                            ? "LEAVES IT"
               : t.relative_error > kGoodShare ? "DRIFTS"
                                               : "LOCAL",
               "after {} steps the local model misses {:.2g} % of the way{}", t.steps,
               100 * t.relative_error,
               t.kc ? fmt::format("; its bound is broken at step {} (k_c)", *t.kc) : "");
}

void describe_trials(const Outlook& f, Page& page) {
  for (const TrialFindings& trial : f.trials) describe_trial(trial, page);
  const TrialFindings* leading = f.leading_trial();
  if (!leading) return;
  if (leading->kc) {
    page.means(
        "The local model's guarantee ends near step {}: from there the network has bent too far "
        "from its linearization.",
        *leading->kc);
    page.advise(
        "Recompute the kernel during training (re-linearize at k_c), or take a smaller rate.");
  } else if (!leading->diverged && leading->relative_error <= kGoodShare) {
    page.means("Over {} trial steps the network behaved as its local model said.", leading->steps);
  }
}

void describe_forecast(const ForecastFindings& f, Page& page) {
  const control::ForecastPoint& best = f.best;
  const auto& c = best.candidate;
  page.verdict("forecast", c.controlled ? "CDT" : "GD",
               "rate {:.3g}{}, {} steps: validation loss {:.4g}", c.learning_rate,
               c.controlled ? fmt::format(", p = {:.3g}", c.p) : "", best.step,
               best.validation_loss);
  if (f.best_descent && c.controlled) {
    page.means(
        "The local model expects {:.4g} from gradient descent at its best ({:.3g}, {} steps).",
        f.best_descent->validation_loss, f.best_descent->candidate.learning_rate,
        f.best_descent->step);
  }
  if (f.sensitivity.to_learning_rate > 0) {
    page.means(
        "Over the grid the learning rate changes the validation loss {:.3g}-fold, p {:.3g}-fold.",
        std::pow(10, f.sensitivity.to_learning_rate), std::pow(10, f.sensitivity.to_weight));
  }
}

void describe_numbers(const Preflight& p, Page& page) {
  const control::Known& margin = p.controller.gain_margin;
  const control::Known& guaranteed = p.controller.guaranteed_margin;
  if (margin.bounded()) {
    page.number(
        "  label augments may be scaled by {:.3g} to {:.3g}{}\n", margin.lower, margin.upper,
        guaranteed.bounded()
            ? fmt::format(" (guaranteed: {:.3g} to {:.3g})", guaranteed.lower, guaranteed.upper)
            : "");
  }
  if (p.curvature || p.products) return;
  page.number(
      "  under the mean absolute error outputs would keep jumping by up to {:.3g} near their "
      "labels\n",
      p.state.mae_radius);
  if (p.rates.lyapunov) {
    page.number("  at this state the error falls for rates below {:.6g}\n", *p.rates.lyapunov);
  }
  for (const TrialFindings& t : p.outlook.trials) {
    if (t.diverged) continue;
    page.number(
        "  trial of {}: Lipschitz estimate {:.4g} (local map {:.4g}), ‖∂²ŷ/∂θ²‖ ≈ {:.4g} (an "
        "estimate, up to {:.2g} % too low), linearization error {:.3g} (estimated bound {:.3g}, "
        "across ReLU kinks indicative)\n",
        name(t), t.lipschitz, t.lipschitz_local, t.hessian_norm, 100 * t.hessian_accuracy,
        t.linearization_error, t.lagrange_bound);
  }
}

void describe_rates(const std::vector<RateRow>& rates, Page& page) {
  if (rates.empty()) return;
  std::string& out = page.rates;
  out +=
      fmt::format("\nOther rates\n  {:>9} {:>6} {:>13} {:>10} {:>10} {:>9} {:>10}\n", "rate",
                  "stable", "αc_Lλ_max < 1", "radius GD", "radius CDT", "margin GD", "margin CDT");
  const auto known = [](double value, int digits) {
    return std::isnan(value) ? std::string("-") : fmt::format("{:.{}g}", value, digits);
  };
  for (const RateRow& r : rates) {
    out +=
        fmt::format("  {:>9.4g} {:>6} {:>13} {:>10.4g} {:>10} {:>9.3g} {:>10}\n", r.learning_rate,
                    r.stable ? "yes" : "no", r.strictly_contracting ? "yes" : "no", r.radius_gd,
                    known(r.radius_cdt, 4), r.margin_gd, known(r.margin_cdt, 3));
  }
}

void describe_left_out(const LeaveOneOut& found, Page& page) {
  constexpr double kLittle = 0.1;  // of the variance
  constexpr double kSame = 0.7;    // of the error of rows that were left out
  const double r2 = found.r2();
  const bool learned = found.outputs_r2() > kLittle;
  page.verdict("new rows",
               learned        ? "UNKNOWN"
               : r2 > kLittle ? "PREDICTABLE"
                              : "HARDLY",
               "left out one by one, they are predicted with R² {:.3f} by the kernel as it is now",
               r2);
  if (learned) {
    page.means(
        "The network's outputs already explain these labels (R² {:.3f}). If it was trained on "
        "these rows, leaving one out does not make it new, and its R² of {:.3f} is too good: ask "
        "before training, or keep rows aside.",
        found.outputs_r2(), r2);
  } else if (r2 <= kLittle) {
    page.means(
        "Before training the kernel predicts new rows hardly better than their mean: the features "
        "say little about the labels, rows are too few, or training must find features first.");
  } else if (found.fitted < kSame * found.error) {
    page.means(
        "On new rows the kernel's error is {:.2g} times that on rows it has learned: more rows "
        "like these would help most.",
        std::sqrt(found.error / std::max(found.fitted, 1e-12 * found.error)));
  } else {
    page.means(
        "On new rows the kernel errs as on rows it has learned: noise, or what no feature says, is "
        "what limits it, and more rows like these would help little.");
  }
  page.number(
      "  left out one by one: RMS {:.4g} (of the mean {:.4g}) at the decay {:.3g}, {:.0f} "
      "effective parameters\n",
      std::sqrt(found.error), std::sqrt(found.mean), found.decay, found.freedom);
}

}  // namespace

void describe_outlook(const Preflight& p, Page& page) {
  if (p.outlook.left_out) describe_left_out(*p.outlook.left_out, page);
  if (p.state.equilibrium) describe_equilibrium(*p.state.equilibrium, page);
  describe_trials(p.outlook, page);
  if (p.outlook.forecast) describe_forecast(*p.outlook.forecast, page);
  describe_rates(p.rates.others, page);
  describe_numbers(p, page);
}

}  // namespace cdt::analysis
