#include <cdt/experiment/summary.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

namespace cdt::experiment {
const Row* find_row(const std::vector<Row>& rows, const std::string& architecture,
                    const std::string& method, double lr) {
  for (const Row& row : rows) {
    if (row.architecture == architecture && row.method == method && row.asked_lr == lr) return &row;
  }
  return nullptr;
}

double Row::difference() const {
  return published ? (val_mean - published->loss.mean) / published->loss.spread : report::kNotKnown;
}

std::pair<double, double> mean_and_spread(const std::vector<double>& values) {
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (finite.empty()) return {report::kNotKnown, report::kNotKnown};
  const auto count = static_cast<double>(finite.size());
  const double mean = std::accumulate(finite.begin(), finite.end(), 0.0) / count;
  double square = 0;
  for (const double value : finite) square += (value - mean) * (value - mean);
  return {mean, finite.size() > 1 ? std::sqrt(square / (count - 1)) : 0.0};
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto ranks = [](const std::vector<double>& values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // NaN comes last: std::sort requires an order.
    std::sort(order.begin(), order.end(), [&](size_t i, size_t j) {
      return values[i] < values[j] || (std::isnan(values[j]) && !std::isnan(values[i]));
    });
    std::vector<double> rank(values.size());
    for (size_t first = 0; first < order.size();) {  // equal values share their mean rank
      size_t last = first;
      while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
      for (size_t i = first; i <= last; ++i) {
        rank[order[i]] = static_cast<double>(first + last) / 2;
      }
      first = last + 1;
    }
    return rank;
  };
  const std::vector<double> x = ranks(a);
  const std::vector<double> y = ranks(b);
  const double middle = static_cast<double>(x.size() - 1) / 2;
  double product = 0;
  double xx = 0;
  double yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    product += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  return xx > 0 && yy > 0 ? product / std::sqrt(xx * yy) : 0;
}

namespace {

/// By target; empty for runs that diverged, and those of versions that did not measure errors.
std::vector<report::SweepError> collect_errors(const std::vector<const CaseRun*>& runs) {
  std::vector<report::SweepError> errors;
  std::vector<std::vector<double>> values;
  for (const CaseRun* run : runs) {
    for (size_t t = 0; t < run->errors.size(); ++t) {
      if (t == errors.size()) {
        errors.push_back({run->errors[t].target, run->errors[t].is_class, {}});
        values.emplace_back();
      }
      values[t].push_back(run->errors[t].value);
    }
  }
  for (size_t t = 0; t < errors.size(); ++t) {
    std::tie(errors[t].error.mean, errors[t].error.spread) = mean_and_spread(values[t]);
  }
  return errors;
}

}  // namespace

std::vector<Row> collect_rows(const Plan& plan, const std::vector<CaseRun>& runs) {
  std::vector<Row> rows;
  const auto add = [&](const Architecture& architecture, const std::string& method, double lr) {
    Row row;
    row.architecture = architecture.name;
    row.method = method;
    row.asked_lr = lr;
    std::vector<double> val;
    std::vector<double> train;
    std::vector<double> seconds;
    std::vector<double> rates;
    for (const CaseRun& run : runs) {
      if (run.what.architecture != row.architecture || run.what.method != method ||
          run.what.lr != lr ||
          (!predicts(method) && (run.what.p != plan.p || run.what.steps != plan.steps))) {
        continue;
      }
      row.runs.push_back(&run);
      row.converged += run.converged() ? 1 : 0;
      row.reachable += run.reachable ? 1 : 0;
      row.strictly_contracting += run.strictly_contracting ? 1 : 0;
      val.push_back(run.val_loss);
      train.push_back(run.train_loss);
      seconds.push_back(run.seconds);
      rates.push_back(run.lr);
    }
    if (row.runs.empty()) return;
    row.classes = plan.loss->classes();
    row.unit = plan.loss_unit;
    row.errors = collect_errors(row.runs);
    std::tie(row.val_mean, row.val_std) = mean_and_spread(val);
    row.train_mean = mean_and_spread(train).first;
    row.seconds = mean_and_spread(seconds).first;
    row.lr = lr > 0 ? lr : mean_and_spread(rates).first;
    rows.push_back(std::move(row));
  };
  for (const Architecture& architecture : plan.architectures) {
    for (const double lr : plan.lrs) {
      for (const std::string& method : plan.methods) {
        if (method != kGdBest) add(architecture, method, lr);
      }
    }
    for (const std::string& method : plan.methods) {
      if (method == kGdBest) add(architecture, method, 0);
    }
    for (const std::string& method : plan.own_rate) add(architecture, method, 0);
  }
  return rows;
}

std::pair<std::vector<int64_t>, std::vector<double>> mean_difference(const Row& gd,
                                                                     const Row& cdt) {
  const MeanCurve a = mean_curve(gd, Quantity::kValidation);
  const MeanCurve b = mean_curve(cdt, Quantity::kValidation);
  std::vector<double> difference;
  const size_t count = std::min(a.step.size(), b.step.size());
  for (size_t k = 0; k < count; ++k) difference.push_back(a.mean[k] - b.mean[k]);
  return {{a.step.begin(), a.step.begin() + static_cast<std::ptrdiff_t>(count)}, difference};
}

MeanCurve mean_curve(const Row& row, Quantity quantity) {
  MeanCurve curve;
  std::set<int64_t> all;  // runs that end early keep their last value
  std::vector<const CaseRun*> runs;
  for (const CaseRun* run : row.runs) {
    if (!run->converged()) continue;
    runs.push_back(run);
    all.insert(run->step.begin(), run->step.end());
  }
  std::vector<size_t> at(runs.size(), 0);
  std::vector<double> last(runs.size(), report::kNotKnown);
  for (const int64_t step : all) {
    std::vector<double> values;
    bool present = false;
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto& source = quantity == Quantity::kValidation ? runs[i]->val : runs[i]->train;
      for (; at[i] < runs[i]->step.size() && runs[i]->step[at[i]] <= step; ++at[i]) {
        if (!std::isfinite(source[at[i]])) continue;
        last[i] = source[at[i]];
        present = present || runs[i]->step[at[i]] == step;
      }
      values.push_back(last[i]);
    }
    if (!present) continue;
    const auto [mean, spread] = mean_and_spread(values);
    curve.step.push_back(step);
    curve.mean.push_back(mean);
    curve.spread.push_back(spread);
  }
  return curve;
}

}  // namespace cdt::experiment
