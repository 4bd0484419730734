#include "experiments/claims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace cdt::paper {
namespace {

using experiment::Architecture;
using experiment::CaseRun;
using experiment::find_row;
using experiment::mean_and_spread;
using experiment::Plan;
using experiment::rank_correlation;
using experiment::Row;
using report::Claim;

/// "architecture 1 at 0.01"
std::string place(const Row& row) {
  return fmt::format("architecture {} at {:g}", row.architecture, row.lr);
}

/// Counts where a statement holds, and remembers where not.
struct Tally {
  int64_t held = 0;
  std::vector<std::string> exceptions;

  void add(bool holds, const std::string& otherwise) {
    if (holds) {
      ++held;
    } else {
      exceptions.push_back(otherwise);
    }
  }
  Claim verdict(const std::string& text, const std::string& of_what,
                const std::string& remark = "") const {
    const auto total = held + static_cast<int64_t>(exceptions.size());
    if (total == 0) return {text, std::nullopt, "no runs that could say"};
    std::string evidence = fmt::format("{} of {} {}", held, total, of_what);
    if (!exceptions.empty()) evidence += fmt::format("; not: {}", fmt::join(exceptions, ", "));
    if (!remark.empty()) evidence += "; " + remark;
    return {text, exceptions.empty(), evidence};
  }
};

struct Pair {
  const Row* gd;
  const Row* cdt;
};

std::vector<Pair> pairs_of(const Plan& plan, const std::vector<Row>& rows) {
  std::vector<Pair> pairs;
  for (const Architecture& each : plan.architectures) {
    for (const double lr : plan.lrs) {
      const Row* gd = find_row(rows, each.name, "gd", lr);
      const Row* cdt = find_row(rows, each.name, "cdt", lr);
      if (gd != nullptr && cdt != nullptr) pairs.push_back({gd, cdt});
    }
  }
  return pairs;
}

Claim lower_everywhere(const std::vector<Pair>& pairs) {
  Tally tally;
  for (const auto& [gd, cdt] : pairs) {
    if (cdt->converged == 0 && gd->converged == 0) continue;
    const bool lower = cdt->converged > 0 && (gd->converged == 0 || cdt->val_mean < gd->val_mean);
    tally.add(lower,
              fmt::format("{} ({:.3g} against {:.3g})", place(*cdt), cdt->val_mean, gd->val_mean));
  }
  return tally.verdict("The validation loss of CDT is lower at every learning rate",
                       "pairs of architecture and rate");
}

Claim never_negative(const std::vector<Pair>& pairs) {
  Tally tally;
  for (const auto& [gd, cdt] : pairs) {
    if (!gd->all_converged() || !cdt->all_converged()) continue;
    const auto [steps, difference] = experiment::mean_difference(*gd, *cdt);
    int64_t negative = 0;
    for (size_t k = 1; k < steps.size(); ++k) negative += difference[k] < 0 ? 1 : 0;
    tally.add(negative == 0,
              fmt::format("{} ({} of {} points)", place(*cdt), negative, steps.size() - 1));
  }
  return tally.verdict("The mean difference L_GD − L_CDT is never negative during training",
                       "pairs where all runs converge");
}

Claim smaller_spread(const std::vector<Pair>& pairs) {
  Tally tally;
  for (const auto& [gd, cdt] : pairs) {
    if (gd->converged < 2 || cdt->converged < 2) continue;
    tally.add(cdt->val_std < gd->val_std,
              fmt::format("{} ({:.2g} against {:.2g})", place(*cdt), cdt->val_std, gd->val_std));
  }
  return tally.verdict("The standard deviation over initializations is smaller for CDT",
                       "pairs that converge");
}

Claim smaller_range(const Plan& plan, const std::vector<Pair>& pairs) {
  Tally tally;
  std::string figures;
  for (const Architecture& each : plan.architectures) {
    std::vector<double> gd;
    std::vector<double> cdt;
    for (const Pair& pair : pairs) {
      if (pair.gd->architecture != each.name || pair.gd->converged == 0 ||
          pair.cdt->converged == 0) {
        continue;
      }
      gd.push_back(pair.gd->val_mean);
      cdt.push_back(pair.cdt->val_mean);
    }
    if (gd.size() < 2) continue;
    const auto range = [](const std::vector<double>& values) {
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      return *high - *low;
    };
    tally.add(range(cdt) < range(gd), "architecture " + each.name);
    figures += fmt::format("{}{}: {:.2g} against {:.2g}", figures.empty() ? "" : ", ", each.name,
                           range(cdt), range(gd));
  }
  return tally.verdict("Over the learning rates where both converge, CDT's losses differ less",
                       "architectures", figures);
}

Claim survives(const std::vector<Pair>& pairs) {
  Tally tally;
  for (const auto& [gd, cdt] : pairs) {
    if (gd->all_converged()) continue;
    tally.add(cdt->all_converged(),
              fmt::format("{} ({} of {} runs)", place(*cdt), cdt->converged, cdt->runs.size()));
  }
  return tally.verdict("CDT converges where gradient descent diverges",
                       "pairs where gradient descent loses runs");
}

/// Runs of the same seed that both converged. Their files may come from anywhere, so they need not
/// be of as many samples.
std::vector<std::pair<const CaseRun*, const CaseRun*>> twins(const Row& gd, const Row& cdt) {
  std::vector<std::pair<const CaseRun*, const CaseRun*>> found;
  for (const CaseRun* a : gd.runs) {
    for (const CaseRun* b : cdt.runs) {
      if (a->what.seed == b->what.seed && a->converged() && b->converged() &&
          !a->final_error.empty() && a->final_error.size() == b->final_error.size()) {
        found.emplace_back(a, b);
      }
    }
  }
  return found;
}

Claim favours_influential(const std::vector<Pair>& pairs) {
  std::vector<double> correlations;
  for (const auto& [gd, cdt] : pairs) {
    for (const auto& [a, b] : twins(*gd, *cdt)) {
      std::vector<double> gained;
      for (size_t i = 0; i < a->final_error.size(); ++i) {
        gained.push_back(std::abs(a->final_error[i]) - std::abs(b->final_error[i]));
      }
      correlations.push_back(rank_correlation(gained, a->row_norm));
    }
  }
  const std::string text =
      "Influential samples are favoured: the error falls most where the kernel's row is large";
  if (correlations.empty()) return {text, std::nullopt, "no runs that could say"};
  std::sort(correlations.begin(), correlations.end());
  const auto positive = std::count_if(correlations.begin(), correlations.end(),
                                      [](double value) { return value > 0; });
  const double median = correlations[correlations.size() / 2];
  return {text, median > 0 && 2 * positive > static_cast<int64_t>(correlations.size()),
          fmt::format("rank correlation of |e_GD| − |e_CDT| with the row's norm: median {:.2f}, "
                      "positive in {} of {} pairs of runs",
                      median, positive, correlations.size())};
}

Claim weight_matters_less(const Plan& plan, const std::vector<Row>& rows,
                          const std::vector<CaseRun>& runs) {
  const std::string text = "The weight p matters less than the learning rate";
  std::vector<double> over_weights;
  std::string figures;
  for (const double p : plan.weights.p) {
    std::vector<double> losses;
    for (const CaseRun& run : runs) {
      if (run.what.architecture == plan.weights.architecture && run.what.method == "cdt" &&
          run.what.lr == plan.weights.lr && run.what.p == p && run.what.steps == plan.steps &&
          run.what.seed <= static_cast<uint64_t>(plan.weights.seeds)) {
        losses.push_back(run.val_loss);
      }
    }
    const double mean = mean_and_spread(losses).first;
    if (!std::isfinite(mean)) continue;
    over_weights.push_back(mean);
    figures += fmt::format("{}p = {:g}: {:.3g}", figures.empty() ? "" : ", ", p, mean);
  }
  std::vector<double> over_rates;
  for (const Row& row : rows) {
    if (row.architecture != plan.weights.architecture || row.method != "cdt") continue;
    std::vector<double> losses;
    for (const CaseRun* run : row.runs) {
      if (run->what.seed <= static_cast<uint64_t>(plan.weights.seeds)) {
        losses.push_back(run->val_loss);
      }
    }
    const double mean = mean_and_spread(losses).first;
    if (!std::isfinite(mean)) continue;
    over_rates.push_back(mean);
    figures += fmt::format(", lr = {:g}: {:.3g}", row.lr, mean);
  }
  if (over_weights.size() < 2 || over_rates.size() < 2) {
    return {text, std::nullopt, "no runs that could say"};
  }
  const auto ratio = [](const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return *high / *low;
  };
  return {text, ratio(over_weights) < ratio(over_rates),
          fmt::format("architecture {}, largest / smallest loss: {:.2f} over p, {:.2f} over the "
                      "rate ({})",
                      plan.weights.architecture, ratio(over_weights), ratio(over_rates), figures)};
}

/// How many samples end nearer their labels under CDT (Fig. samples).
std::optional<Claim> samples_closer(const Plan& plan, const Published& published,
                                    const std::vector<Pair>& pairs) {
  for (const auto& [gd, cdt] : pairs) {
    if (gd->architecture != plan.samples.architecture || gd->lr != plan.samples.lr) continue;
    std::vector<double> shares;
    std::string first;
    for (const auto& [a, b] : twins(*gd, *cdt)) {
      int64_t closer = 0;
      for (size_t i = 0; i < a->final_error.size(); ++i) {
        closer += std::abs(b->final_error[i]) < std::abs(a->final_error[i]) ? 1 : 0;
      }
      shares.push_back(static_cast<double>(closer) / static_cast<double>(a->final_error.size()));
      if (a->what.seed == 1) first = fmt::format("{} of {}", closer, a->final_error.size());
    }
    if (first.empty()) return std::nullopt;
    const auto [mean, spread] = mean_and_spread(shares);
    std::string evidence =
        fmt::format("{} samples for the first seed, {:.0f} ± {:.0f} % over all seeds", first,
                    100 * mean, 100 * spread);
    if (published.of_samples > 0) {
      evidence +=
          fmt::format(" (published: {} of {}, {:.0f} %)", published.closer, published.of_samples,
                      100.0 * static_cast<double>(published.closer) /
                          static_cast<double>(published.of_samples));
    }
    return Claim{fmt::format("Most samples end closer to their label under CDT ({})", place(*cdt)),
                 mean > 0.5, evidence};
  }
  return std::nullopt;
}

/// The mean validation curve's lowest point.
struct Lowest {
  int64_t step = 0;
  double loss = 0;
  double last = 0;  ///< where the curve ends
};

std::optional<Lowest> lowest_of(const Row& row) {
  const experiment::MeanCurve curve = mean_curve(row, experiment::Quantity::kValidation);
  if (!row.all_converged() || curve.mean.empty()) return std::nullopt;
  const auto low = std::min_element(curve.mean.begin(), curve.mean.end());
  return Lowest{curve.step[static_cast<size_t>(low - curve.mean.begin())], *low, curve.mean.back()};
}

std::string curve_text(const Lowest& gd, const Lowest& cdt) {
  return fmt::format(
      "lowest {:.4g} at step {} under gradient descent, {:.4g} at step {} under CDT; "
      "at the end {:.4g} and {:.4g}",
      gd.loss, gd.step, cdt.loss, cdt.step, gd.last, cdt.last);
}

/// What the paper says of its pictures, each of one rate: Figs. alexnet_01 to alexnet_0001.
std::vector<Claim> picture_claims(const std::vector<Pair>& pairs) {
  const auto at = [&](double lr, const std::string& text, auto judge) {
    for (const auto& [gd, cdt] : pairs) {
      if (gd->lr != lr) continue;
      const auto a = lowest_of(*gd), b = lowest_of(*cdt);
      if (a && b) return Claim{text, judge(*gd, *cdt, *a, *b), curve_text(*a, *b)};
    }
    return Claim{text, std::nullopt, "no runs that could say"};
  };
  std::vector<Claim> claims{survives(pairs)};
  claims.push_back(at(0.1, "At 0.1 both methods overfit: their validation loss rises again",
                      [](const Row&, const Row&, const Lowest& a, const Lowest& b) {
                        return a.last > a.loss && b.last > b.loss;
                      }));
  claims.push_back(
      at(0.1, "At 0.1 CDT settles at a lower validation loss",
         [](const Row&, const Row&, const Lowest& a, const Lowest& b) { return b.last < a.last; }));
  claims.push_back(
      at(0.01, "At 0.01 CDT reaches a lower validation loss than gradient descent",
         [](const Row&, const Row&, const Lowest& a, const Lowest& b) { return b.loss < a.loss; }));
  claims.push_back(
      at(0.01, "At 0.01 CDT overfits earlier",
         [](const Row&, const Row&, const Lowest& a, const Lowest& b) { return b.step < a.step; }));
  claims.push_back(at(0.001, "At 0.001 CDT accelerates learning: its mean loss is lower throughout",
                      [](const Row& gd, const Row& cdt, const Lowest&, const Lowest&) {
                        const auto difference = experiment::mean_difference(gd, cdt).second;
                        return std::all_of(difference.begin() + 1, difference.end(),
                                           [](double gained) { return gained > 0; });
                      }));
  return claims;
}

}  // namespace

Published read_published(const JsonValue& experiment) {
  Published published;
  published.note = experiment["published"]["note"].text_or("");
  published.closer = experiment["samples"]["published_closer"].count_or(0);
  published.of_samples = experiment["samples"]["published_samples"].count_or(0);
  const JsonValue rows = experiment["published"]["rows"];
  if (!rows.exists()) return published;
  for (const JsonValue& row : rows.list()) {
    const double lr = row["lr"].number();
    if (!(lr > 0)) row["lr"].refuse("a number above 0");
    published.rows.push_back(
        {row["architecture"].text(),
         lr,
         row["method"].text(),
         {{row["val_mse_mean"].number_or_nan(), row["val_mse_std"].number_or_nan()},
          row["converged"].count_or(0)}});
  }
  return published;
}

void add_published(const Published& published, std::vector<Row>& rows) {
  for (Row& row : rows) {
    for (const PublishedRow& each : published.rows) {
      if (each.architecture == row.architecture && each.lr == row.asked_lr &&
          each.method == row.method) {
        row.published = each.value;
      }
    }
  }
}

std::vector<Claim> check_claims(const Plan& plan, const Published& published,
                                const std::vector<Row>& rows, const std::vector<CaseRun>& runs) {
  if (!plan.loss->quadratic()) return {};
  const std::vector<Pair> pairs = pairs_of(plan, rows);
  if (pairs.empty()) return {};
  if (plan.data.is_pictures) return picture_claims(pairs);
  std::vector<Claim> claims{lower_everywhere(pairs), never_negative(pairs),
                            smaller_spread(pairs),   smaller_range(plan, pairs),
                            survives(pairs),         favours_influential(pairs)};
  if (!plan.weights.p.empty()) claims.push_back(weight_matters_less(plan, rows, runs));
  if (auto claim = samples_closer(plan, published, pairs)) claims.push_back(*std::move(claim));
  return claims;
}

}  // namespace cdt::paper
