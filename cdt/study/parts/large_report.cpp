#include <cdt/core/text/format.h>
#include <cdt/study/parts/large.h>

namespace cdt::study {
namespace {

using nlohmann::ordered_json;

std::string about(const dynamics::TraceEstimate& estimate) {
  return fmt::format("{:.4g} ± {:.2g}", estimate.value, estimate.error);
}

std::string large_verdicts(const LargeFindings& found) {
  const double fastest = 2 * found.learning_rate / found.lr_max;  // no mode is faster
  const double surely = 2 * found.learning_rate / found.lr_max_above;
  std::string text =
      surely >= 2
          ? verdict_line("gradient descent", "UNSTABLE",
                         fmt::format("its fastest mode is multiplied by {:.3g} or worse each step",
                                     1 - surely))
      : fastest > 2 ? verdict_line("gradient descent", "UNDECIDED",
                                   "the rate lies between the bounds on the largest stable one")
      : fastest > 1 ? verdict_line("gradient descent", "STABLE",
                                   "bounded, but the fastest mode may change sign each step")
                    : verdict_line("gradient descent", "STABLE", "no mode oscillates");
  text += verdict_line("controlled descent", "STABLE", "at any rate, whatever the modes not found");
  text += verdict_line("reachability", found.reachable_at_most < found.n ? "NO" : "UNDECIDED",
                       fmt::format("at least {} and at most {} of {} directions",
                                   found.reachable_at_least, found.reachable_at_most, found.n));
  return text;
}

std::vector<std::string> large_meaning(const LargeFindings& found) {
  std::vector<std::string> lines{
      fmt::format("Gradient descent is stable up to a rate of {:.4g} for certain, and unstable "
                  "beyond {:.4g}.",
                  found.lr_max, found.lr_max_above),
      fmt::format("Controlled descent stays stable until the kernel has grown {:.3g}-fold at "
                  "least; slow modes learn {:.2f} times faster.",
                  found.margins.cdt, 1 + found.gain_slow_modes),
      fmt::format("The kernel is shared by about {:.3g} of {} modes: what else there is to learn "
                  "is learned slowly.",
                  found.effective_rank.value, found.n)};
  if (found.equal_rows > 0) {
    lines.push_back(
        fmt::format("{} have the features of an earlier row: what differs in them "
                    "cannot be told apart.",
                    count_of(found.equal_rows, "row")));
  }
  return lines;
}

std::vector<std::string> large_advice(const LargeFindings& found) {
  std::vector<std::string> advice;
  constexpr size_t kMost = 5;
  for (const ConflictingRows& rows : found.conflicts) {
    if (advice.size() == kMost) {
      advice.push_back(fmt::format("… and {} more such groups.", found.conflicts.size() - kMost));
      break;
    }
    advice.push_back(fmt::format("Lines {} of {} are equal in every feature, but {}.",
                                 list_rows(rows.lines), found.source, rows.difference));
  }
  return advice;
}

ordered_json estimate_json(const dynamics::TraceEstimate& estimate) {
  return {{"value", number_or_null(estimate.value)}, {"error", number_or_null(estimate.error)}};
}

}  // namespace

std::string to_text(const LargeFindings& found) {
  std::string text = fmt::format(
      "Pre-flight: {} × {}, loss {},\n"
      "  learning rate {:.4g}, p = {:.4g}, q = {:.4g}; by products with the kernel\n\n",
      count_of(found.samples, "sample"), count_of(found.outputs, "output"), to_string(found.loss),
      found.learning_rate, found.p, found.q);
  text += large_verdicts(found);
  append_section(text, "What it means", large_meaning(found));
  append_section(text, "What to do", large_advice(found));
  text += fmt::format(
      "\nKnown for certain, up to rounding\n  tr Θ {:.6g}   λ_max {:.6g} to {:.6g}\n"
      "  largest stable rate {:.6g} to {:.6g}   kernel margins: at least {:.3g} (gradient "
      "descent), "
      "{:.3g} (CDT)\n"
      "  reachable directions {} (of the kernel of {}) to {}\n  loss before training {:.6g}\n",
      found.trace, found.lambda_max, found.lambda_max_bound, found.lr_max, found.lr_max_above,
      found.margins.gd, found.margins.cdt, found.reachable_at_least,
      count_of(found.sampled_rows, "row"), found.reachable_at_most, found.initial_loss);
  text += fmt::format("\nEstimated, with standard errors\n  effective rank (tr Θ)²/tr Θ²: {}\n",
                      about(found.effective_rank));
  text += "  effective parameters tr Θ(Θ + τI)⁻¹ at a decay τ, in mean eigenvalues:\n";
  for (const FreedomAt& each : found.freedom) {
    text += fmt::format("    τ = {:<8.4g} {}\n", each.decay, about(each.freedom));
  }
  text += "  eigenvalues by decades below λ_max:\n";
  for (const Decade& decade : found.density) {
    text += fmt::format("    {:>5.0e} to {:<5.0e}  {}\n", decade.from, 10 * decade.from,
                        about(decade.count));
  }
  text += fmt::format("    below            {}\n  {} products with the kernel in {:.1f} s\n",
                      about(found.below), found.products, found.seconds);
  return wrap(text, 4);
}

std::string to_json(const LargeFindings& found) {
  ordered_json json{{"n", found.n},
                    {"samples", found.samples},
                    {"outputs", found.outputs},
                    {"parameters", found.parameters},
                    {"loss", to_string(found.loss)},
                    {"lr", found.learning_rate},
                    {"q", found.q},
                    {"p", found.p},
                    {"by", "products"},
                    {"trace", found.trace},
                    {"lambda_max", found.lambda_max},
                    {"lambda_max_bound", found.lambda_max_bound},
                    {"lr_max", number_or_null(found.lr_max)},
                    {"lr_max_above", number_or_null(found.lr_max_above)},
                    {"stable", found.stability.stable},
                    {"margin_gd", number_or_null(found.margins.gd)},
                    {"margin_cdt", number_or_null(found.margins.cdt)},
                    {"gain_slow_modes", found.gain_slow_modes},
                    {"rank_at_least", found.reachable_at_least},
                    {"rank_at_most", found.reachable_at_most},
                    {"sampled_rows", found.sampled_rows},
                    {"equal_rows", found.equal_rows},
                    {"initial_loss", found.initial_loss},
                    {"effective_rank", estimate_json(found.effective_rank)},
                    {"freedom", ordered_json::array()},
                    {"density", ordered_json::array()},
                    {"below", estimate_json(found.below)},
                    {"conflicts", ordered_json::array()},
                    {"products", found.products},
                    {"seconds", found.seconds}};
  for (const FreedomAt& each : found.freedom) {
    json["freedom"].push_back({{"decay", each.decay}, {"freedom", estimate_json(each.freedom)}});
  }
  for (const Decade& decade : found.density) {
    json["density"].push_back({{"from", decade.from}, {"count", estimate_json(decade.count)}});
  }
  for (const ConflictingRows& rows : found.conflicts) {
    json["conflicts"].push_back({{"lines", rows.lines}, {"kind", "duplicate-conflict"}});
  }
  return json.dump(2);
}

}  // namespace cdt::study
