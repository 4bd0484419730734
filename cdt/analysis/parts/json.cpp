// The pre-flight as JSON, with the names and the order of docs/formats.md.
#include <cdt/analysis/preflight.h>
#include <cdt/core/io/json_fields.h>

namespace cdt::analysis {
namespace {

/// Writes numbers that are computed on the spot.
template <class T>
void put(Fields& f, std::string_view name, T value) {
  f(name, value);
}

void put_interval(Fields& f, const control::Known& interval, const char* prefix = "") {
  put(f, std::string(prefix) + "lower", interval.lower);
  put(f, std::string(prefix) + "upper", interval.upper);
}

void put_estimate(Fields& f, std::string_view name, const dynamics::TraceEstimate& estimate) {
  f.object(name, [&] {
    put(f, "value", estimate.value);
    put(f, "error", estimate.error);
  });
}

void put_point(Fields& f, const control::ForecastPoint& point) {
  const control::Candidate& best = point.candidate;
  put(f, "method", point.method());
  put(f, "best_lr", best.learning_rate);
  put(f, "best_p", best.controlled ? std::optional(best.p) : std::nullopt);
  put(f, "best_step", point.step);
  put(f, "best_train_loss", point.train_loss);
  put(f, "best_val_loss", point.validation_loss);
}

void put_stability(Fields& f, const Preflight& p) {
  put(f, "stable", p.stability.stable);
  if (p.products) return;
  if (!p.curvature) put(f, "exponentially_stable", p.stability.exponential);
  put(f, "strictly_contracting", p.stability.strictly_contracting);
  put(f, "lr_max", p.rates.stable.upper);
  put(f, "lr_monotone", p.rates.monotone.upper);
  if (p.curvature) {
    put(f, "lr_max_everywhere", p.rates.everywhere > 0 ? p.rates.everywhere : NAN);
  } else {
    put(f, "kappa", p.stability.kappa.upper);
    put(f, "gamma", p.stability.gamma);
  }
  put(f, "radius_gd", p.stability.kappa.upper);
  put(f, "radius_cdt", p.controller.radius.upper);
}

void put_margins(Fields& f, const Preflight& p) {
  const control::Known& margin = p.controller.kernel_margin;
  put(f, "margin_gd", p.stability.margin.value);
  // Where the controller that acts knows bounds, the lower one counts.
  put(f, "margin_cdt", p.acts ? margin.lower : margin.value);
  put(f, "gain_slow_modes", p.gain_slow_modes());
}

/// What quadratic losses have alone.
void put_reach(Fields& f, const Preflight& p) {
  put(f, "riccati_residual", p.controller.residual);
  put(f, "reach_steps", p.reach.steps);
  put(f, "reach_size", p.reach.size);
  if (p.reach.inputs) put(f, "input_condition", *p.reach.inputs);
}

void put_outlook(Fields& f, const Preflight& p) {
  const Outlook& outlook = p.outlook;
  const TrialFindings none{
      .lipschitz = NAN, .linearization_error = NAN, .lagrange_bound = NAN, .hessian_norm = NAN};
  const TrialFindings& trial = outlook.leading_trial() ? *outlook.leading_trial() : none;
  put(f, "lipschitz", trial.lipschitz);
  put(f, "linearization_error", trial.linearization_error);
  put(f, "lagrange_bound", trial.lagrange_bound);
  put(f, "hessian_norm", trial.hessian_norm);
  put(f, "kc", trial.kc);
  put(f, "equilibrium", p.state.equilibrium);
  put(f, "left_out", outlook.left_out);
  put(f, "mae_radius", p.state.mae_radius);
  put(f, "lyapunov_lr_max", p.rates.lyapunov);
  f.object("gain_margin", [&] {
    put_interval(f, p.controller.gain_margin);
    put_interval(f, p.controller.guaranteed_margin, "guaranteed_");
  });
  put(f, "rates", p.rates.others);
  put(f, "trials", outlook.trials);
  if (outlook.forecast) put(f, "forecast", *outlook.forecast);
}

void put_products(Fields& f, const ByProducts& found, const Preflight& p) {
  put(f, "rank_at_least", static_cast<int64_t>(p.reachability.rank.lower));
  put(f, "rank_at_most", static_cast<int64_t>(p.reachability.rank.upper));
  put(f, "sampled_rows", found.sampled_rows);
  put(f, "equal_rows", found.equal_rows);
  put(f, "initial_loss", p.state.loss);
  put_estimate(f, "effective_rank", found.effective_rank);
  put(f, "freedom", found.freedom);
  put(f, "density", found.density);
  put_estimate(f, "below", found.below);
}

}  // namespace

void Equilibrium::fields(Fields& f) {
  put(f, "kind", to_string(kind));
  f("movement", movement);
  f("rows", rows);
}

void LeaveOneOut::fields(Fields& f) {
  put(f, "r2", r2());
  f("mse", error);
  f("mse_fitted", fitted);
  f("mse_mean", mean);
  f("mse_outputs", outputs);
  f("decay", decay);
  f("freedom", freedom);
}

void FreedomAt::fields(Fields& f) {
  f("decay", decay);
  put_estimate(f, "freedom", freedom);
}

void Decade::fields(Fields& f) {
  f("from", from);
  put_estimate(f, "count", count);
}

void ForecastFindings::fields(Fields& f) {
  put_point(f, best);
  if (best_descent) f.object("gd", [&] { put_point(f, *best_descent); });
  f("spread_lr", sensitivity.to_learning_rate);
  f("spread_p", sensitivity.to_weight);
}

void Preflight::fields(Fields& f) {
  f("n", n);
  f("samples", samples);
  f("outputs", outputs);
  if (products) f("parameters", products->parameters);
  put(f, "loss", to_string(loss));
  if (curvature && curvature->smoothing) f("smoothing", *curvature->smoothing);
  f("lr", learning_rate);
  f("q", q);
  f("p", rho);
  if (products) {
    put(f, "by", std::string("products"));
    f("trace", products->trace);
  }
  put(f, "lambda_max", spectrum.largest.lower);
  if (products) {
    put(f, "lambda_max_bound", spectrum.largest.upper);
    put(f, "lr_max", rates.stable.lower);
    put(f, "lr_max_above", rates.stable.upper);
  } else {
    put(f, "lambda_min", spectrum.smallest.value);
    put(f, "rank", static_cast<int64_t>(reachability.rank.value));
    f("rank_tolerance", spectrum.rank_tolerance);
    f("reachable", reachability.reachable);
  }
  if (!products && !curvature) {
    const auto& found = reach.stabilizability;
    f("reachability_margin", reachability.margin);
    put(f, "stabilizable", found ? std::optional(found->stabilizable) : std::nullopt);
    put(f, "stuck_error", found ? std::optional(found->stuck_error) : std::nullopt);
  }
  put_stability(f, *this);
  put_margins(f, *this);
  if (products) {
    put_products(f, *products, *this);
  } else if (curvature) {
    f("initial_loss", state.loss);
    if (!curvature->smoothing) f("flat", curvature->flat);
  } else {
    put_reach(f, *this);
  }
  f("conflicts", reach.conflicts);
  if (acts) f("controller", controller);
  if (products) {
    f("products", products->products);
    f("seconds", products->seconds);
  } else if (!curvature) {
    put_outlook(f, *this);
  }
}

std::string to_json(const Preflight& preflight) { return to_json_value(preflight).dump(2); }

}  // namespace cdt::analysis
