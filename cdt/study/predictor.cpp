#include <cdt/core/error.h>
#include <cdt/core/text/format.h>
#include <cdt/core/text/text.h>
#include <cdt/data/rows/equal_rows.h>
#include <cdt/study/predictor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Limits of the factor that corrects sums; beyond them the rows show something else.
constexpr double kLeastFactor = 0.8, kMostFactor = 1.25;
/// Shares of training targets beyond which predictions are clamped, tried from the widest range on:
/// networks overshoot where few rows are far from all others. A narrower range must be better by
/// kTailGain.
constexpr std::array kTails{0.0, 0.005, 0.01};
constexpr double kTailGain = 0.01;
/// Coverage for which the width of intervals is minimised.
constexpr double kCoverageOfChoice = 0.9;
/// Temperatures are searched between e⁻² and e².
constexpr double kWidestTemperature = 2;
/// Prior standard deviation of the logarithm of a temperature; on eleven tables it was within
/// ±0.25. Without it, few rows that are all predicted correctly would give certainty.
constexpr double kSpreadOfTemperature = 0.25;
/// Minimum standard deviation of squared errors, relative to their mean. It is √2 for normal
/// errors; few rows that happen to be equal cannot show less than this.
constexpr double kLeastSpreadOfSquares = 0.5;
/// For normal errors an eighth of the rows makes half of the squares; this share or less counts as
/// few.
constexpr double kFewOfAll = 0.03;
/// With more rows, new rows have about the same variance given all rows as given those of a fold
/// network.
constexpr int64_t kMostLeftOut = 1500;
/// Limit of a small advantage.
constexpr double kLittleBetter = 0.98;
/// Limit of an advantage worth mentioning.
constexpr double kAsGood = 0.9;

/// Numbers of the distinct rows, for held-out rows.
std::vector<int64_t> different_of(const Problem& problem, const Tensor& rows) {
  std::vector<int64_t> found;
  for (int64_t i = 0; !problem.different.empty() && i < rows.numel(); ++i) {
    found.push_back(problem.different[static_cast<size_t>(rows[i].item<int64_t>())]);
  }
  return data::numbered(found);
}

/// Minimizes a function with one minimum, by golden-section search.
template <class Function>
double least(Function f, double low, double high) {
  const double share = (std::sqrt(5.0) - 1) / 2;
  double a = high - share * (high - low), b = low + share * (high - low);
  double fa = f(a), fb = f(b);
  for (int i = 0; i < 40; ++i) {
    if (fa < fb) {
      high = b, b = a, fb = fa;
      a = high - share * (high - low);
      fa = f(a);
    } else {
      low = a, a = b, fa = fb;
      b = low + share * (high - low);
      fb = f(b);
    }
  }
  return (low + high) / 2;
}

/// `y` are the targets of training rows; held-out predictions are compared with `wanted`; all
/// scaled.
TargetCalibration calibrate_number(const data::TargetColumn& target, const Tensor& y,
                                   const Tensor& held, const Tensor& wanted) {
  TargetCalibration best{y.min().item<double>(), y.max().item<double>(), 1};
  if (held.numel() == 0) return best;
  const auto in_file = [&](const Tensor& scaled) {
    const Tensor value = scaled * target.scale.scale + target.scale.offset;
    return target.log ? value.exp() : value;
  };
  const Tensor truth = in_file(wanted);
  const Tensor sorted = std::get<0>(y.sort());
  const auto quantile = [&](double share) {
    const auto last = static_cast<double>(sorted.numel() - 1);
    return sorted[static_cast<int64_t>(std::lround(share * last))].item<double>();
  };
  double least_square = std::numeric_limits<double>::infinity();
  const TargetCalibration widest = best;
  for (const double tail : kTails) {
    for (const double other : kTails) {
      TargetCalibration tried{tail > 0 ? quantile(tail) : widest.low,
                              other > 0 ? quantile(1 - other) : widest.high, 1};
      Tensor guess = in_file(held.clamp(tried.low, tried.high));
      // exp of a mean is less than the mean of exp; the factor corrects this.
      if (target.log) {
        const double factor = truth.sum().item<double>() / guess.sum().item<double>();
        tried.factor = std::clamp(factor, kLeastFactor, kMostFactor);
        guess = guess * tried.factor;
      }
      const double square = (guess - truth).square().sum().item<double>();
      if (square >= least_square * (1 - kTailGain)) continue;
      least_square = square;
      best = tried;
    }
  }
  return best;
}

}  // namespace

void PickedPoint::fields(Fields& f) {
  f.spelled(
      "activation", activation, [](auto value) { return nn::to_string(value); },
      nn::parse_activation);
  f.need("point", point);
  f("loss", loss);
}

void LaterRows::fields(Fields& f) {
  f.need("by", by);
  f.need("rows", rows);
  f.need("error", error);
  f("r2", r2);
}

void Expectation::fields(Fields& f) {
  f.need("target", target);
  f.need("rows", rows);
  if (f.reads()) different = rows;
  if (f.has("different_rows", different > 0 && different < rows)) f("different_rows", different);
  if (f.has("rmse", std::isnan(majority_wrong))) {
    f("rmse", rmse);
    f("r2", r2);
    f("rmse_of_linear", linear_rmse);
    f("rmse_of_mean", mean_rmse);
  } else {
    f.need("wrong", wrong);
    f.need("log_loss", log_loss);
    f.need("wrong_of_majority", majority_wrong);
  }
  if (f.has("lead"))
    f.object("lead", [&] {
      constexpr double kMostLead = 1e9;  // infinite if all rows prefer it by the same amount
      const auto lead = [&](const char* name, double& value) {
        double shown = std::clamp(value, -kMostLead, kMostLead);
        f(name, shown);
        if (f.reads()) value = shown;
      };
      lead("over_simple", simple_lead);
      lead("over_linear", linear_lead);
    });
  f.some("decisive_rows", decisive);
  f.some("later", later);
}

Predictor calibrate(const Problem& problem, const Learned& learned) {
  Predictor predictor;
  predictor.members = learned.networks;
  if (learned.line) predictor.members.push_back(*learned.line);
  predictor.loss = learned.loss;
  const data::Preprocess& preprocess = problem.preprocess;
  const train::TrainData all = all_rows(problem);
  const Tensor y = all.y.to(torch::kCPU, torch::kFloat64);
  const Tensor rows = torch::isfinite(learned.held_out).all(1).nonzero().squeeze(1);
  const Tensor held = learned.held_out.index_select(0, rows);
  const Tensor wanted = y.index_select(0, rows);
  if (preprocess.has_classes()) {
    if (rows.numel() == 0) return predictor;
    const auto different = different_of(problem, rows);
    const Tensor labels = different.empty() ? wanted : wanted * weights_of(different).unsqueeze(1);
    const double best = least(
        [&](double t) {
          const double doubt = 0.5 * std::pow(t / kSpreadOfTemperature, 2);
          return doubt - (labels * torch::log_softmax(held / std::exp(t), 1)).sum().item<double>();
        },
        -kWidestTemperature, kWidestTemperature);
    predictor.temperature = std::exp(best);
    return predictor;
  }
  const Tensor means = predictor.mean(held);
  for (int64_t t = 0; t < y.size(1); ++t) {
    const data::TargetColumn& target = preprocess.targets[static_cast<size_t>(t)];
    predictor.targets.push_back(
        calibrate_number(target, y.select(1, t), means.select(1, t), wanted.select(1, t)));
    if (learned.line_shares.empty()) continue;
    TargetCalibration& found = predictor.targets.back();
    found.line = learned.line_shares[static_cast<size_t>(t)];
    if (found.line == 1 && !target.log) {  // a linear model extrapolates, by at most the range
      const double range = found.high - found.low;
      found.low -= range;
      found.high += range;
    }
  }
  return predictor;
}

std::optional<Intervals> make_intervals(const Problem& problem, const Learned& learned,
                                        const Predictor& predictor) {
  if (problem.preprocess.has_classes()) return std::nullopt;
  const Tensor rows = torch::isfinite(learned.held_out).all(1).nonzero().squeeze(1);
  if (rows.numel() == 0) return std::nullopt;
  const train::TrainData all = all_rows(problem);
  Intervals intervals;
  const Tensor held = bounded(predictor, learned.held_out);
  const Tensor spread = predictor.spread(held).index_select(0, rows);
  Tensor residuals = (held - all.y.to(torch::kCPU, torch::kFloat64)).abs();
  residuals = residuals.index_select(0, rows) / spread;
  const auto different = different_of(problem, rows);
  if (learned.held_variance.defined() && learned.decay > 0) {
    const Tensor v = learned.held_variance.index_select(0, rows);
    intervals.median = v.median().item<double>();
    // Uses the share of v with the shortest intervals: on some tables v distinguishes difficult
    // rows from easy ones. One of five choices is shorter by chance, so the gain must exceed a
    // margin.
    const double margin =
        0.5 / std::sqrt(static_cast<double>(count_different(different, rows.numel())));
    double shortest = std::numeric_limits<double>::infinity();
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const Tensor s = deviation(v, intervals.median, share);
      const Tensor scaled = sorted_by_row(residuals / s, different);
      double width = 0;
      for (int64_t t = 0; t < scaled.size(1); ++t) {
        width += half_width(scaled.select(1, t), kCoverageOfChoice) *
                 (s * spread).select(1, t).mean().item<double>();
      }
      if (!(width < shortest * (share > 0 ? 1 - margin : 1))) continue;
      shortest = width;
      intervals.share = share;
    }
    residuals = residuals / deviation(v, intervals.median, intervals.share);
    intervals.x = all.x.cpu();
    intervals.tau = learned.decay;
    intervals.new_median = intervals.median;
    if (intervals.share > 0 && all.x.size(0) <= kMostLeftOut) {
      // Members know all rows, so the variance of a new row is smaller than for fold networks,
      // whose residuals these are. On average s must not decrease.
      const nn::Network& first = predictor.members.at(0);
      const Tensor own =
          left_out_variance(first, all.x.to(first->dtype()), learned.decay, problem.different);
      const double ratio = (own.mean() / v.mean()).item<double>();
      intervals.new_median *= std::min(1.0, ratio);
    }
  }
  intervals.residuals = sorted_by_row(residuals, different);
  intervals.targets = sorted_by_row(all.y.to(torch::kCPU, torch::kFloat64), problem.different);
  return intervals;
}

Bounds held_out_bounds(const Problem& problem, const Learned& learned, const Predictor& predictor,
                       const Intervals& intervals, const Tensor& rows, double coverage) {
  const Tensor predicted = bounded(predictor, learned.held_out.index_select(0, rows));
  Tensor s = torch::ones_like(predicted);
  if (intervals.x.defined() && intervals.share > 0) {
    s = deviation(learned.held_variance.index_select(0, rows), intervals.median, intervals.share);
  }
  return bounds_around(intervals, predictor, problem.preprocess, predicted, s, coverage);
}

std::vector<Expectation> expect(const data::Preprocess& preprocess, const Tensor& predicted,
                                const Tensor& wanted, const Tensor& x,
                                const std::vector<int64_t>& different,
                                const HeldOutBaselines& known) {
  std::vector<Expectation> found;
  const int64_t r = predicted.size(0);
  const int64_t count = count_different(different, r);
  if (preprocess.has_classes()) {
    Expectation e;
    e.target = preprocess.targets[0].name;
    e.rows = r;
    e.different = count;
    const Tensor wrong = predicted.argmax(1).ne(wanted.argmax(1)).to(torch::kFloat64);
    e.wrong = share_of(wrong.mean().item<double>(), effective_rows(different, r));
    e.log_loss = mean_of_losses(-(predicted * wanted).sum(1).clamp_min(1e-300).log(), different);
    if (e.wrong.value == 0) {
      // No row was wrong; up to this share may be, each at the cost of the logarithm of the
      // remaining probability.
      const Tensor left = (1 - predicted.amax(1)).clamp_min(std::numeric_limits<double>::epsilon());
      const double cost = -left.log().mean().item<double>();
      e.log_loss.error = std::max(e.log_loss.error, share_at_most(0, count) / 2 * cost);
    }
    const Tensor share = wanted.mean(0);
    e.majority_wrong = 1 - share.max().item<double>();
    const Tensor other = wanted.argmax(1).ne(share.argmax());
    e.simple_lead = lead_of(other.to(torch::kFloat64) - wrong, different);
    return {e};
  }
  for (size_t t = 0; t < preprocess.targets.size(); ++t) {
    const auto column = static_cast<int64_t>(t);
    const Tensor y = wanted.select(1, column);
    const Tensor squares = (predicted.select(1, column) - y).square();
    Expectation e;
    e.target = preprocess.targets[t].name;
    e.rows = r;
    e.different = count;
    e.rmse = root_of(mean_of_losses(squares, different, kLeastSpreadOfSquares));
    const double variance = (y - y.mean()).square().mean().item<double>();
    if (e.rmse.value == 0) {
      // No row had an error; up to this share may have one as large as the range of targets.
      const Tensor targets = known.targets.defined() ? known.targets.select(1, column) : y;
      const double range = (targets.max() - targets.min()).item<double>();
      e.rmse.error = range * std::sqrt(share_at_most(0, count)) / 2;
    }
    if (variance > 0) e.r2 = 1 - e.rmse.value * e.rmse.value / variance;
    const Tensor around =
        (known.mean.defined() ? known.mean.select(1, column) - y : y - y.mean()).square();
    e.mean_rmse = around.mean().sqrt().item<double>();
    e.simple_lead = lead_of(around - squares, different);
    const int64_t half = rows_of_half(different.empty() ? squares : sum_by(squares, different));
    if (count > 1 &&
        static_cast<double>(half) <= std::max(1.0, kFewOfAll * static_cast<double>(count))) {
      e.decisive = half;
    }
    if (r >= 3) {
      const Tensor of_line =
          (known.line.defined() ? known.line.select(1, column) - y
                                : fit_linear(x, y.unsqueeze(1), different).left_out.squeeze(1))
              .square();
      e.linear_rmse = of_line.mean().sqrt().item<double>();
      e.linear_lead = lead_of(of_line - squares, different);
    }
    found.push_back(e);
  }
  return found;
}

std::vector<Expectation> expect(const Problem& problem, const Learned& learned,
                                const Predictor& predictor) {
  const Tensor rows = torch::isfinite(learned.held_out).all(1).nonzero().squeeze(1);
  if (rows.numel() == 0) return {};
  const train::TrainData all = all_rows(problem);
  const auto of_rows = [&](const Tensor& values) { return values.cpu().index_select(0, rows); };
  HeldOutBaselines known;
  if (!problem.preprocess.has_classes()) {
    known.targets = problem.preprocess.to_original(all.y.cpu());
    // If all rows are held out in turn, leave-one-out is equivalent. If only some are, such as the
    // latest, simpler models must not use them either.
    if (rows.numel() < all.x.size(0) && all.x.dim() == 2) {
      const Baselines found = held_out_baselines(all, learned);
      known.line = problem.preprocess.to_original(of_rows(found.line));
      known.mean = problem.preprocess.to_original(of_rows(found.mean));
    }
  }
  return expect(problem.preprocess,
                in_units(predictor, problem.preprocess, of_rows(learned.held_out)),
                problem.preprocess.to_original(of_rows(all.y)), of_rows(all.x),
                different_of(problem, rows), known);
}

namespace {

/// Number of distinct rows; records of older versions have only the total.
int64_t different_rows(const Expectation& e) { return e.different > 0 ? e.different : e.rows; }

/// A single row gives no error estimate.
std::string with_error(const Estimate& e) {
  return fmt::format("{} ± {}", plain(e.value),
                     std::isnan(e.error) ? "unknown" : plain(e.error, 2));
}

/// Whether the model is significantly better; records of older versions have only the errors.
bool is_certain(double lead, int64_t rows, const Estimate& error, double baseline) {
  if (std::isnan(lead)) return error.value + 2 * error.error < baseline;
  return lead > errors_on_a_side(rows);
}

}  // namespace

std::string verdict_of(const Expectation& e) {
  const bool classes = !std::isnan(e.majority_wrong);
  const Estimate& error = classes ? e.wrong : e.rmse;
  const double simple = classes ? e.majority_wrong : e.mean_rmse;
  const std::string name = classes ? "always saying the most frequent class" : "the mean";
  if (!std::isfinite(error.value)) return "";
  const bool certain = is_certain(e.simple_lead, different_rows(e), error, simple);
  if (error.value >= simple || (!certain && error.value >= kLittleBetter * simple)) {
    return fmt::format("No better than {}: the columns say little about it, or rows are too few",
                       name);
  }
  if (!certain) {
    const int64_t rows = different_rows(e);
    return fmt::format("Better than {}, but {} {} too few to be certain", name,
                       count_of(rows, "row"), rows == 1 ? "is" : "are");
  }
  if (classes || std::isnan(e.linear_rmse)) return "";
  if (error.value >= kAsGood * e.linear_rmse &&
      !is_certain(e.linear_lead, different_rows(e), error, e.linear_rmse)) {
    return "A linear model may do as well: the networks found little beyond it";
  }
  return "";
}

std::string what_limits(const Expectation& e, double fitted) {
  constexpr double kSame = 0.7;
  if (!std::isfinite(e.rmse.value) || e.rmse.value == 0 || e.rmse.value >= e.mean_rmse ||
      !is_certain(e.simple_lead, different_rows(e), e.rmse, e.mean_rmse)) {
    return "";
  }
  if (kSame * fitted > e.rmse.value) return "";  // by chance, with few held-out rows
  if (fitted < kSame * e.rmse.value) {
    return fmt::format("Error on training rows: {}. More rows like these would help",
                       plain(fitted));
  }
  return fmt::format("Error on training rows: {}, hardly less: noise or missing columns limit it",
                     plain(fitted));
}

std::string to_text(const Expectation& e) {
  const std::string name = printable_name(e.target);
  const bool classes = !std::isnan(e.majority_wrong);
  std::string text;
  if (classes) {
    text = fmt::format(
        "{}: expected error on new rows {:.1f} ± {:.1f} %, log loss {}\n"
        "  always the most frequent class: {:.1f} %",
        name, 100 * e.wrong.value, 100 * e.wrong.error, with_error(e.log_loss),
        100 * e.majority_wrong);
    if (e.wrong.value == 0) {
      text += fmt::format("\n  None of {} was wrong, so up to {:.2g} % of new rows may be",
                          count_of(different_rows(e), "row"),
                          100 * share_at_most(0, different_rows(e)));
    }
  } else {
    text = fmt::format("{}: expected RMS error on new rows {}", name, with_error(e.rmse));
    if (!std::isnan(e.r2)) text += fmt::format(", R² {:.3f}", e.r2);
    text += std::isnan(e.linear_rmse)
                ? "\n  the mean: "
                : "\n  a linear model: " + plain(e.linear_rmse) + "; the mean: ";
    text += plain(e.mean_rmse);
  }
  if (const std::string verdict = verdict_of(e); !verdict.empty()) text += "\n  " + verdict;
  if (e.decisive > 0) {
    text += fmt::format("\n  {} of {} {} half of the squared error: the ± is rough", e.decisive,
                        count_of(different_rows(e), "row"), e.decisive == 1 ? "makes" : "make");
  }
  if (e.later) text += "\n  " + to_text(*e.later, classes);
  return text;
}

std::vector<std::string> cautions(const Problem& problem, const LearnOptions& options,
                                  const Learned& learned) {
  std::vector<std::string> found;
  const int64_t rows = all_rows(problem).x.size(0);
  if (rows < kWarnBelow) {
    found.push_back(fmt::format(
        "{} are few: expected errors, their ± and intervals are rough (need {} or more)",
        count_of(rows, "row"), kWarnBelow));
  }
  for (const PickedPoint& each : learned.left_out) {
    found.push_back(
        fmt::format("{} networks are left out: on the rows that they held out their loss was "
                    "{:.3g}, and {:.3g} "
                    "of {} ones",
                    nn::to_string(each.activation), each.loss, learned.picked.front().loss,
                    nn::to_string(learned.picked.front().activation)));
  }
  const int64_t limit = options.training.steps;
  const bool at_the_end =
      limit > 0 && std::any_of(learned.picked.begin(), learned.picked.end(),
                               [&](const PickedPoint& each) { return each.point >= limit; });
  if (at_the_end) {
    found.push_back(
        fmt::format("held-out errors were still falling at the limit of {}: try --steps {}",
                    count_of(limit, options.training.method->path ? "point" : "epoch"), 2 * limit));
  }
  return found;
}

std::string to_text(const LaterRows& later, bool classes) {
  const std::string error =
      classes
          ? fmt::format("{:.1f} ± {:.1f} % wrong", 100 * later.error.value, 100 * later.error.error)
          : fmt::format("off by {}{}", with_error(later.error),
                        std::isnan(later.r2) ? "" : fmt::format(" (R² {:.3f})", later.r2));
  return fmt::format(
      "Rows have an order, by {}. The estimate is for rows in between.\n"
      "  On the last {} rows, from earlier ones: {}\n"
      "  (--time splits by a column)",
      later.by, later.rows, error);
}

}  // namespace cdt::study
