#include <cdt/core/check.h>
#include <cdt/core/error.h>
#include <cdt/core/tolerance.h>
#include <cdt/data/rows/equal_rows.h>
#include <cdt/kernel/ntk.h>
#include <cdt/study/intervals.h>

#include <algorithm>
#include <cmath>

namespace cdt::study {

using torch::Tensor;

namespace {

/// Number of new rows processed at a time.
constexpr int64_t kRowsAtATime = 256;

/// s [r′, t] for new rows.
Tensor deviation_of(const Intervals& intervals, const Predictor& predictor, const Tensor& x_new) {
  if (!intervals.x.defined() || intervals.share == 0) {
    return torch::ones({x_new.size(0), intervals.residuals.size(1)}, torch::kFloat64);
  }
  const nn::Network& first = predictor.members.at(0);
  const auto as_input = [&](const Tensor& x) { return x.to(first->device(), first->dtype()); };
  return deviation(relative_variance(first, as_input(intervals.x), intervals.tau, as_input(x_new)),
                   intervals.new_median, intervals.share);
}

/// Rounding error of the eigenvalues of Θ, with rows counted as often as they occur: a smaller
/// decay has no effect, and Θ + τI would not be positive definite.
double rounding_of(const Tensor& theta, const Tensor& count) {
  const int64_t n = count.sum().item<int64_t>();
  const Tensor largest = theta.abs().matmul(count.to(theta.device())).max();  // upper bound
  return tol::rank_of_stored(n, theta.scalar_type()) * largest.item<double>();
}

/// Factorization of Θ + diag(τ/m), for rows that occur m times each [n].
struct DecayedKernel {
  Tensor L;
  double tau = 0;  ///< at least the rounding error
};

DecayedKernel factorised(const kernel::Model& network, const Tensor& x, double tau,
                         const Tensor& count) {
  Tensor theta = kernel::empirical_ntk(network, x).theta;
  tau = std::max(tau, rounding_of(theta, count));
  theta.diagonal().add_((tau / count).to(theta.device()));
  const auto [L, info] = torch::linalg_cholesky_ex(theta);
  if (info.item<int64_t>() != 0) {
    throw NumericalError(c10::str("intervals: the kernel with a decay of ", tau,
                                  " is not positive definite in float64"));
  }
  return {L, tau};
}

Tensor marked(const std::vector<bool>& rows) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]) found.push_back(static_cast<int64_t>(i));
  }
  return torch::tensor(found, torch::kInt64);
}

/// Bounds of the calibration, [t] each.
std::pair<Tensor, Tensor> limits_of(const Predictor& predictor, int64_t targets) {
  std::vector<double> low, high;
  for (int64_t t = 0; t < targets; ++t) {
    const auto i = static_cast<size_t>(t);
    const TargetCalibration held =
        i < predictor.targets.size() ? predictor.targets[i] : TargetCalibration();
    low.push_back(held.low);
    high.push_back(held.high);
  }
  return {torch::tensor(low, torch::kFloat64), torch::tensor(high, torch::kFloat64)};
}

/// Quantiles of the targets that contain this share of new ones, [t] each; infinite if there are
/// too few rows.
std::pair<Tensor, Tensor> target_range(const Intervals& intervals, const Predictor& predictor,
                                       double coverage) {
  const int64_t t = intervals.residuals.size(1);
  if (!intervals.targets.defined()) return limits_of(predictor, t);
  const int64_t h = intervals.targets.size(0);
  // 1 − 0.9 is slightly below 0.1, and 100 times that slightly below an integer.
  constexpr double kRounding = 1e-9;
  const auto outside =
      static_cast<int64_t>(std::floor(static_cast<double>(h + 1) * (1 - coverage) / 2 + kRounding));
  if (outside < 1) {
    const Tensor infinite =
        torch::full({t}, std::numeric_limits<double>::infinity(), torch::kFloat64);
    return {-infinite, infinite};
  }
  return {intervals.targets[outside - 1], intervals.targets[h - outside]};
}

/// Root mean square [r′, t] of the distances of targets from these outputs.
Tensor spread_around(const Intervals& intervals, const Predictor& predictor,
                     const Tensor& outputs) {
  if (intervals.targets.defined()) {
    const Tensor mean = intervals.targets.mean(0);
    return ((outputs - mean).square() + (intervals.targets - mean).square().mean(0)).sqrt();
  }
  const auto [low, high] = limits_of(predictor, outputs.size(1));
  return torch::maximum((outputs - low).abs(), (high - outputs).abs());
}

}  // namespace

Tensor left_out_variance(const nn::Network& model, const Tensor& x, double tau,
                         const std::vector<int64_t>& different) {
  require_positive(tau, "the decay of intervals");
  // m equal rows equal one row with noise τ/m.
  const std::vector<int64_t> numbers = data::numbered(different);
  const Tensor of = different.empty() ? torch::arange(x.size(0), torch::kInt64)
                                      : torch::tensor(numbers, torch::kInt64);
  const Tensor count = of.bincount().to(torch::kFloat64);
  const int64_t r = count.size(0), outputs = model->output_count();
  std::vector<int64_t> rows(static_cast<size_t>(r));  // one of each group
  for (int64_t i = x.size(0); i-- > 0;) rows[static_cast<size_t>(of[i].item<int64_t>())] = i;
  const Tensor first = torch::tensor(rows, torch::kInt64);
  const DecayedKernel kernel =
      factorised(kernel::Model(model.ptr()), x.index_select(0, first.to(x.device())), tau,
                 count.repeat_interleave(outputs));
  tau = kernel.tau;
  const Tensor inverse = torch::cholesky_inverse(kernel.L).cpu();
  // The Schur complement of a row's own block is the inverse of that block of the inverse.
  const Tensor blocks = inverse.view({r, outputs, r, outputs}).diagonal(0, 0, 2).permute({2, 0, 1});
  const Tensor own = torch::linalg_inv(blocks.contiguous()).diagonal(0, 1, 2);
  const Tensor v = 1 + (own - (tau / count).unsqueeze(1)) / tau;
  return v.clamp_min(1).index_select(0, of);
}

Tensor relative_variance(const nn::Network& model, const Tensor& x, double tau,
                         const Tensor& x_new) {
  const kernel::Model network(model.ptr());
  require_positive(tau, "the decay of intervals");
  const int64_t residuals = x.size(0) * model->output_count();
  const DecayedKernel all = factorised(network, x, tau, torch::ones({residuals}, torch::kFloat64));
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < x_new.size(0); first += kRowsAtATime) {
    const Tensor some = x_new.narrow(0, first, std::min(kRowsAtATime, x_new.size(0) - first));
    const Tensor own = kernel::empirical_ntk(network, some).theta.diagonal();
    const Tensor cross = kernel::empirical_ntk(network, x, some).theta;  // [n, n′]
    const Tensor seen = torch::linalg_solve_triangular(all.L, cross, /*upper=*/false);
    parts.push_back((own + all.tau - seen.square().sum(0)) / all.tau);
  }
  // Only rounding makes it smaller than the row's own noise.
  return torch::cat(parts).clamp_min(1).view({x_new.size(0), -1}).cpu();
}

Tensor deviation(const Tensor& v, double median, double share) {
  return (1 - share + share / median * v).sqrt();
}

Tensor weights_of(const std::vector<int64_t>& different) {
  const Tensor of = torch::tensor(different, torch::kInt64);
  return of.bincount().to(torch::kFloat64).reciprocal().index_select(0, of);
}

Tensor sorted_by_row(const Tensor& values, const std::vector<int64_t>& different) {
  const auto [sorted, order] = values.sort(0);
  if (different.empty()) return sorted;
  const Tensor weights = weights_of(different);
  const int64_t count = std::get<0>(at::_unique(torch::tensor(different, torch::kInt64))).numel();
  // Sums of weights are slightly below the integers that they represent.
  const Tensor ranks = torch::arange(1, count + 1, torch::kFloat64) - 1e-6;
  std::vector<Tensor> columns;
  for (int64_t t = 0; t < values.size(1); ++t) {
    const Tensor mass = weights.index_select(0, order.select(1, t)).cumsum(0);
    const Tensor at = torch::searchsorted(mass, ranks).clamp_max(values.size(0) - 1);
    columns.push_back(sorted.select(1, t).index_select(0, at));
  }
  return torch::stack(columns, 1);
}

double half_width(const Tensor& residuals, double coverage) {
  CDT_REQUIRE(coverage > 0 && coverage < 1, "an interval covers a share between 0 and 1, got ",
              coverage);
  const auto h = static_cast<double>(residuals.size(0));
  const auto rank = static_cast<int64_t>(std::ceil((h + 1) * coverage));
  if (rank > residuals.size(0)) return std::numeric_limits<double>::infinity();
  return residuals[rank - 1].item<double>();
}

Bounds bounds_around(const Intervals& intervals, const Predictor& predictor,
                     const data::Preprocess& preprocess, const Tensor& predictions, const Tensor& s,
                     double coverage) {
  std::vector<double> width;
  for (int64_t t = 0; t < predictions.size(1); ++t) {
    width.push_back(half_width(intervals.residuals.select(1, t), coverage));
  }
  const Tensor half = s * torch::tensor(width, torch::kFloat64) * predictor.spread(predictions);
  // Without the calibration's bounds, since a new row may exceed them.
  const Tensor low = (predictions - half).clamp_min(predictor.least_target());
  return {from_scaled(predictor, preprocess, low),
          from_scaled(predictor, preprocess, predictions + half)};
}

Bounds bounds_of(const Intervals& intervals, const Predictor& predictor,
                 const data::Preprocess& preprocess, const Tensor& x_new, double coverage,
                 const std::vector<bool>& unfamiliar) {
  Bounds found = bounds_around(intervals, predictor, preprocess,
                               bounded(predictor, mean_outputs(predictor, x_new)),
                               deviation_of(intervals, predictor, x_new), coverage);
  const Tensor rows = marked(unfamiliar);
  if (rows.numel() == 0) return found;
  const auto [low, high] = target_range(intervals, predictor, coverage);
  const auto widen = [&](Tensor& bound, const Tensor& range, auto choose) {
    const Tensor units = preprocess.to_original(range.unsqueeze(0)).expand({rows.numel(), -1});
    bound.index_copy_(0, rows, choose(bound.index_select(0, rows), units));
  };
  widen(found.low, low, [](const Tensor& a, const Tensor& b) { return torch::minimum(a, b); });
  widen(found.high, high, [](const Tensor& a, const Tensor& b) { return torch::maximum(a, b); });
  return found;
}

Tensor deviations_of(const Intervals& intervals, const Predictor& predictor,
                     const data::Preprocess& preprocess, const Tensor& x_new,
                     const std::vector<bool>& unfamiliar) {
  Tensor sigma = deviation_of(intervals, predictor, x_new) *
                 intervals.residuals.square().mean(0, /*keepdim=*/true).sqrt();
  const Tensor outputs = mean_outputs(predictor, x_new);
  sigma = sigma * predictor.spread(bounded(predictor, outputs));
  if (const Tensor rows = marked(unfamiliar); rows.numel() > 0) {
    const Tensor far =
        spread_around(intervals, predictor, bounded(predictor, outputs).index_select(0, rows));
    sigma = sigma.index_copy(0, rows, torch::maximum(sigma.index_select(0, rows), far));
  }
  const Tensor units = in_units(predictor, preprocess, outputs);
  for (size_t t = 0; t < preprocess.targets.size(); ++t) {
    const data::TargetColumn& target = preprocess.targets[t];
    Tensor column = sigma.select(1, static_cast<int64_t>(t));
    column.mul_(target.scale.scale);
    if (target.log) {
      column.square_().expm1_().sqrt_().mul_(units.select(1, static_cast<int64_t>(t)));
    }
  }
  return sigma;
}

}  // namespace cdt::study
