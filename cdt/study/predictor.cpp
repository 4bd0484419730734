#include <cdt/core/error.h>
#include <cdt/core/format.h>
#include <cdt/core/text.h>
#include <cdt/data/equal_rows.h>
#include <cdt/study/predictor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cdt::study {
namespace {

using torch::Tensor;

/// Of a factor that makes sums right: beyond these the rows say something else.
constexpr double kLeastFactor = 0.8, kMostFactor = 1.25;
/// Shares of training targets beyond which no prediction goes, tried from the widest on: where few
/// rows are far from all others, networks overshoot them. Narrower ones must be better by so much.
constexpr std::array kTails{0.0, 0.005, 0.01};
constexpr double kTailGain = 0.01;
/// The share of rows for which intervals shall be short.
constexpr double kCoverageOfChoice = 0.9;
/// Temperatures are looked for between e⁻² and e².
constexpr double kWidestTemperature = 2;
/// What logarithms of temperatures are expected to be, as a standard deviation; on eleven tables
/// they were within ±0.25. Few rows that happen to be all right would say that nothing is
/// uncertain.
constexpr double kSpreadOfTemperature = 0.25;

/// Sums [G, …] of values [r, …] over the G different rows.
Tensor sum_by(const Tensor& values, const std::vector<int64_t>& different) {
  const Tensor of = torch::tensor(data::numbered(different), torch::kInt64);
  std::vector<int64_t> shape = values.sizes().vec();
  shape[0] = of.max().item<int64_t>() + 1;
  return torch::zeros(shape, torch::kFloat64).index_add_(0, of, values);
}

/// Of the rows that were held out: which of the different rows each is.
std::vector<int64_t> different_of(const Problem& problem, const Tensor& rows) {
  std::vector<int64_t> found;
  for (int64_t i = 0; !problem.different.empty() && i < rows.numel(); ++i) {
    found.push_back(problem.different[static_cast<size_t>(rows[i].item<int64_t>())]);
  }
  return data::numbered(found);
}

/// The mean over rows, and its standard error. Rows that repeat go together: the error is that of
/// sums over different rows.
Estimate mean_of(const Tensor& values, const std::vector<int64_t>& different) {
  const auto r = static_cast<double>(values.numel());
  const double mean = values.mean().item<double>();
  if (different.empty()) {
    const double spread = r > 1 ? values.var().item<double>() : 0;
    return {mean, std::sqrt(spread / r)};
  }
  const Tensor sums = sum_by(values - mean, different);
  const auto count = static_cast<double>(sums.numel());
  if (count < 2) return {mean, 0};
  return {mean, std::sqrt(sums.square().sum().item<double>() * count / (count - 1)) / r};
}

/// The least of a function with one minimum, by golden sections.
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

/// The targets of training rows end at `y`; of outputs held out against what was wanted, all
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
      // exp of a mean is less than the mean of exp: what rows show of that, they set right.
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

Predictor calibrate(const Problem& problem, const Learned& learned) {
  Predictor predictor;
  predictor.members = learned.networks;
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
  for (int64_t t = 0; t < y.size(1); ++t) {
    const data::TargetColumn& target = preprocess.targets[static_cast<size_t>(t)];
    predictor.targets.push_back(
        calibrate_number(target, y.select(1, t), held.select(1, t), wanted.select(1, t)));
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
  Tensor residuals =
      (bounded(predictor, learned.held_out) - all.y.to(torch::kCPU, torch::kFloat64)).abs();
  residuals = residuals.index_select(0, rows);
  const auto different = different_of(problem, rows);
  if (learned.held_variance.defined() && learned.decay > 0) {
    const Tensor v = learned.held_variance.index_select(0, rows);
    intervals.median = v.median().item<double>();
    // As much of v as makes intervals short: on some tables it tells hard rows from easy ones.
    double shortest = std::numeric_limits<double>::infinity();
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const Tensor s = deviation(v, intervals.median, share);
      const Tensor scaled = sorted_by_row(residuals / s, different);
      double width = 0;
      for (int64_t t = 0; t < scaled.size(1); ++t) {
        width += half_width(scaled.select(1, t), kCoverageOfChoice) *
                 s.select(1, t).mean().item<double>();
      }
      if (!(width < shortest)) continue;
      shortest = width;
      intervals.share = share;
    }
    residuals = residuals / deviation(v, intervals.median, intervals.share);
    intervals.x = all.x.cpu();
    intervals.tau = learned.decay;
  }
  intervals.residuals = sorted_by_row(residuals, different);
  intervals.targets = sorted_by_row(all.y.to(torch::kCPU, torch::kFloat64), problem.different);
  return intervals;
}

Bounds held_out_bounds(const Problem& problem, const Learned& learned, const Predictor& predictor,
                       const Intervals& intervals, const Tensor& rows, double coverage) {
  const Tensor outputs = bounded(predictor, learned.held_out.index_select(0, rows));
  Tensor s = torch::ones_like(outputs);
  if (intervals.x.defined() && intervals.share > 0) {
    s = deviation(learned.held_variance.index_select(0, rows), intervals.median, intervals.share);
  }
  return bounds_around(intervals, predictor, problem.preprocess, outputs, s, coverage);
}

double linear_error(const Tensor& x, const Tensor& y, const std::vector<int64_t>& different) {
  const int64_t r = x.size(0);
  const auto rows = static_cast<double>(r);
  const Tensor e = y - y.mean();
  // In float64 a block of rows at a time.
  constexpr int64_t kBlock = int64_t{1} << 14;
  const auto for_blocks = [&](const auto& work) {
    for (int64_t first = 0; first < r; first += kBlock) work(first, std::min(kBlock, r - first));
  };
  const auto wide = [&](int64_t first, int64_t count) {
    return x.narrow(0, first, count).to(torch::kCPU, torch::kFloat64);
  };
  const Tensor sum = torch::zeros({x.size(1)}, torch::kFloat64);
  for_blocks([&](int64_t first, int64_t count) { sum.add_(wide(first, count).sum(0)); });
  const auto centred = [&](int64_t first, int64_t count) {
    return wide(first, count) - sum / rows;
  };
  // In the smaller of the two Gram matrices; H = Q diag(s/(s + λ)) Qᵀ + 11ᵀ/r.
  const bool tall = r > x.size(1);
  Tensor gram;
  if (tall) {
    gram = torch::zeros({x.size(1), x.size(1)}, torch::kFloat64);
    for_blocks([&](int64_t first, int64_t count) {
      const Tensor X = centred(first, count);
      gram.addmm_(X.t(), X);
    });
  } else {
    const Tensor X = centred(0, r);
    gram = X.mm(X.t());
  }
  const auto [values, vectors] = torch::linalg_eigh(gram);
  const double largest = values.max().clamp_min(0).item<double>();
  if (largest == 0) return e.square().mean().sqrt().item<double>();
  const Tensor kept = values.gt(1e-12 * largest).nonzero().squeeze(1);
  const Tensor s = values.index_select(0, kept);
  const Tensor V = vectors.index_select(1, kept);
  const auto Q = [&](int64_t first, int64_t count) {
    return tall ? centred(first, count).mm(V) / s.sqrt() : V.narrow(0, first, count);
  };
  const Tensor c = torch::zeros_like(s);
  for_blocks([&](int64_t first, int64_t count) {
    c.addmv_(Q(first, count).t(), e.narrow(0, first, count));
  });
  std::vector<Tensor> kept_shares;  // s/(s + λ), for each λ
  for (double share = 1e-6; share < 20; share *= 3) {
    kept_shares.push_back(s / (s + share * largest));
  }
  const Tensor h = torch::stack(kept_shares, 1);
  const Tensor squares = torch::zeros({h.size(1)}, torch::kFloat64);
  // Of a block of rows: what is left of their targets, and how much of it is their own doing.
  const auto fit = [&](int64_t first, int64_t count) {
    const Tensor q = Q(first, count);
    return std::pair{e.narrow(0, first, count).unsqueeze(1) - q.mm(h * c.unsqueeze(1)),
                     q.square().mm(h) + 1 / rows};
  };
  Tensor of, sums, sizes;  // over different rows, which are left out together
  if (!different.empty()) {
    of = torch::tensor(data::numbered(different), torch::kInt64);
    sizes = of.bincount().to(torch::kFloat64);
    sums = torch::zeros({sizes.size(0), h.size(1)}, torch::kFloat64);
    for_blocks([&](int64_t first, int64_t count) {
      sums.index_add_(0, of.narrow(0, first, count), fit(first, count).first);
    });
  }
  for_blocks([&](int64_t first, int64_t count) {
    const auto [residual, leverage] = fit(first, count);
    if (different.empty()) {
      squares.add_((residual / (1 - leverage).clamp_min(1e-9)).square().sum(0));
      return;
    }
    // Equal rows have one leverage l: (I − l·11ᵀ)⁻¹ = I + l/(1 − ml)·11ᵀ.
    const Tensor own = of.narrow(0, first, count);
    const Tensor all = sizes.index_select(0, own).unsqueeze(1) * leverage;
    const Tensor shared = leverage / (1 - all).clamp_min(1e-9) * sums.index_select(0, own);
    squares.add_((residual + shared).square().sum(0));
  });
  return std::sqrt(squares.min().item<double>() / rows);
}

std::vector<Expectation> expect(const data::Preprocess& preprocess, const Tensor& predicted,
                                const Tensor& wanted, const Tensor& x,
                                const std::vector<int64_t>& different) {
  std::vector<Expectation> found;
  const int64_t r = predicted.size(0);
  const int64_t count =
      different.empty() ? r : 1 + *std::max_element(different.begin(), different.end());
  if (preprocess.has_classes()) {
    Expectation e;
    e.target = preprocess.targets[0].name;
    e.rows = r;
    e.different = count;
    e.wrong = mean_of(predicted.argmax(1).ne(wanted.argmax(1)).to(torch::kFloat64), different);
    e.log_loss = mean_of(-(predicted * wanted).sum(1).clamp_min(1e-300).log(), different);
    e.majority_wrong = 1 - wanted.mean(0).max().item<double>();
    return {e};
  }
  for (size_t t = 0; t < preprocess.targets.size(); ++t) {
    const auto column = static_cast<int64_t>(t);
    const Tensor y = wanted.select(1, column);
    const Estimate square = mean_of((predicted.select(1, column) - y).square(), different);
    Expectation e;
    e.target = preprocess.targets[t].name;
    e.rows = r;
    e.different = count;
    e.rmse.value = std::sqrt(square.value);
    e.rmse.error = square.value > 0 ? square.error / (2 * e.rmse.value) : 0;
    const double variance = y.var(false).item<double>();
    if (variance > 0) e.r2 = 1 - square.value / variance;
    e.mean_rmse = std::sqrt(variance);
    if (r >= 3) e.linear_rmse = linear_error(x, y, different);
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
  return expect(
      problem.preprocess, in_units(predictor, problem.preprocess, of_rows(learned.held_out)),
      problem.preprocess.to_original(of_rows(all.y)), of_rows(all.x), different_of(problem, rows));
}

std::string what_limits(const Expectation& e, double fitted) {
  constexpr double kSame = 0.7;
  if (!std::isfinite(e.rmse.value) || e.rmse.value + 2 * e.rmse.error >= e.mean_rmse) return "";
  if (fitted < kSame * e.rmse.value) {
    return fmt::format(
        "What limits it: the number of rows. On those it has learned it is off by {}; more rows "
        "like these would help",
        plain(fitted));
  }
  return fmt::format(
      "What limits it: noise, or what no column says. On the rows it has learned it is off by "
      "{}, hardly less; more rows like these would help little",
      plain(fitted));
}

std::string to_text(const Expectation& e) {
  const std::string name = printable_name(e.target);
  if (!std::isnan(e.majority_wrong)) {
    return fmt::format(
        "{}: expect {:.1f} ± {:.1f} % of new rows to be wrong, log loss {:.3g} ± {:.2g}; always "
        "saying "
        "the most frequent class: {:.1f} %",
        name, 100 * e.wrong.value, 100 * e.wrong.error, e.log_loss.value, e.log_loss.error,
        100 * e.majority_wrong);
  }
  std::string text = fmt::format("{}: expect to be off by {} ± {} (RMS) on new rows", name,
                                 plain(e.rmse.value), plain(e.rmse.error, 2));
  if (!std::isnan(e.r2)) text += fmt::format(", R² {:.3f}", e.r2);
  if (!std::isnan(e.linear_rmse)) text += "; a linear model: " + plain(e.linear_rmse);
  text += "; the mean: " + plain(e.mean_rmse);
  // Within two standard errors nobody can tell them apart.
  if (e.rmse.value + 2 * e.rmse.error >= e.mean_rmse) {
    text +=
        "\n  That is no better than the mean: these columns say little about it, or rows are too "
        "few";
  } else if (e.rmse.value + 2 * e.rmse.error >= e.linear_rmse) {
    text += "\n  A linear model may do as well: the network has found little beyond it";
  }
  return text;
}

}  // namespace cdt::study
