#include <cdt/core/error.h>
#include <cdt/study/predictions.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cdt::study {

using torch::Tensor;

namespace {

Tensor wide_outputs(const nn::Network& model, const Tensor& x) {
  return nn::outputs_of(model, x.to(model->device(), model->dtype()))
      .to(torch::kCPU, torch::kFloat64);
}

/// Applies `of` to the outputs of the first `count` members, and averages.
template <class Function>
Tensor averaged(const Predictor& predictor, size_t count, const Tensor& x, Function of) {
  Tensor sum;
  for (size_t m = 0; m < count; ++m) {
    const Tensor part = of(wide_outputs(predictor.members[m], x));
    sum = sum.defined() ? sum + part : part;
  }
  return sum / static_cast<double>(count);
}

}  // namespace

void NumberErrors::fields(Fields& f) {
  f("rmse", rmse);
  f("mae", mae);
  f("r2", r2);
}

void ClassErrors::fields(Fields& f) {
  f.need("accuracy", accuracy);
  f("cross_entropy", cross_entropy);
  f("majority", majority);
  f("balanced_accuracy", balanced_accuracy);
  f.need("classes", classes);
  f("recall", recall);
  const size_t count = classes.size();
  f.each("confusion", confusion, [&](auto& row) { f.here(row, count); });
  f.require(confusion.size() == count, "confusion",
            c10::str("a row for each of the ", count, " classes"));
  if (f.reads()) add_baselines(*this);  // missing in files of earlier versions
}

void fields(Fields& f, Errors& errors) {
  f.members(errors, &TargetErrors::target, [&](TargetErrors& each) {
    if (f.reads() && f.has("classes")) each.value = ClassErrors();
    std::visit([&](auto& value) { f.here(value); }, each.value);
  });
}

void TargetCalibration::fields(Fields& f) {
  f("low", low);
  f("high", high);
  if (f.reads() && std::isnan(low)) low = -std::numeric_limits<double>::infinity();
  if (f.reads() && std::isnan(high)) high = std::numeric_limits<double>::infinity();
  f.require(low <= high, "low", "a bound that is not above the high one");
  f.need("factor", factor);
  f.some("line", line);
  f.require(line >= 0 && line <= 1, "line", "a share from 0 to 1");
}

bool has_line(const Predictor& predictor) {
  return std::any_of(predictor.targets.begin(), predictor.targets.end(),
                     [](const TargetCalibration& target) { return target.line > 0; });
}

Tensor mean_outputs(const Predictor& predictor, const Tensor& x) {
  const bool line = has_line(predictor);
  const Tensor networks =
      averaged(predictor, predictor.members.size() - line, x, [](const Tensor& z) { return z; });
  if (!line) return networks;
  std::vector<double> shares;
  for (const TargetCalibration& target : predictor.targets) shares.push_back(target.line);
  const Tensor share = torch::tensor(shares, torch::kFloat64);
  return (1 - share) * networks + share * wide_outputs(predictor.members.back(), x);
}

Tensor bounded(const Predictor& predictor, const Tensor& outputs) {
  Tensor held = predictor.mean(outputs).clone();
  for (size_t t = 0; t < predictor.targets.size(); ++t) {
    const TargetCalibration& target = predictor.targets[t];
    held.select(1, static_cast<int64_t>(t)).clamp_(target.low, target.high);
  }
  return held;
}

Tensor nearest_probabilities(const Tensor& outputs) {
  // The k largest, minus a constant such that their sum is 1; k is the largest number for which all
  // stay positive.
  const Tensor sorted = std::get<0>(outputs.sort(1, /*descending=*/true));
  const Tensor count = torch::arange(1, outputs.size(1) + 1, outputs.options());
  const Tensor excess = (sorted.cumsum(1) - 1) / count;
  const Tensor kept = (sorted > excess).sum(1, /*keepdim=*/true);
  return (outputs - excess.gather(1, kept - 1)).clamp_min(0);
}

Tensor from_scaled(const Predictor& predictor, const data::Preprocess& preprocess,
                   const Tensor& scaled) {
  Tensor units = preprocess.to_original(scaled);
  for (size_t t = 0; t < predictor.targets.size(); ++t) {
    units.select(1, static_cast<int64_t>(t)) *= predictor.targets[t].factor;
  }
  return units;
}

Tensor in_units(const Predictor& predictor, const data::Preprocess& preprocess,
                const Tensor& outputs) {
  if (preprocess.has_classes()) {
    return preprocess.targets[0].squares ? nearest_probabilities(outputs)
                                         : torch::softmax(outputs / predictor.temperature, 1);
  }
  return from_scaled(predictor, preprocess, bounded(predictor, outputs));
}

Tensor predict_targets(const Predictor& predictor, const data::Preprocess& preprocess,
                       const data::Samples& samples, const std::string& source) {
  const torch::NoGradGuard no_graph;
  const int64_t block = preprocess.pictures ? 256 : 1 << 16;  // rows at a time
  std::vector<Tensor> parts;
  for (int64_t first = 0; first < samples.count(); first += block) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(block, samples.count() - first)));
    std::iota(rows.begin(), rows.end(), first);
    const Tensor features = samples.batch(rows).x;
    const auto units = [&](const Tensor& z) { return in_units(predictor, preprocess, z); };
    // Averages probabilities, or numbers in scaled units.
    parts.push_back(preprocess.has_classes()
                        ? averaged(predictor, predictor.members.size(), features, units)
                        : units(mean_outputs(predictor, features)));
  }
  Tensor predictions = torch::cat(parts);
  const Tensor broken = torch::isfinite(predictions).all(1).logical_not().nonzero();
  CDT_REQUIRE(
      broken.size(0) == 0, source, ", row ", broken[0][0].item<int64_t>() + 1,
      ": its prediction is not a finite number; a feature lies far outside the range of the "
      "training data");
  return predictions;
}

ClassErrors measure_classes(const data::Preprocess& preprocess, const Tensor& probabilities,
                            const Tensor& labels) {
  const int64_t C = preprocess.output_count();
  const Tensor wanted = labels.argmax(1);
  const Tensor predicted = probabilities.argmax(1);
  const Tensor counts = torch::bincount(wanted * C + predicted, {}, C * C).view({C, C});
  ClassErrors errors;
  errors.accuracy = wanted.eq(predicted).to(torch::kFloat64).mean().item<double>();
  // As −log p, from the probability of the right class. It is zero by rounding only, except for
  // classes fitted by squares, for which the logarithm is meaningless.
  const Tensor p = (probabilities * labels).sum(1).clamp_min(1e-300);
  errors.cross_entropy =
      preprocess.targets[0].squares ? train::kUnknown : -p.log().mean().item<double>();
  errors.classes = preprocess.classes();
  for (int64_t i = 0; i < C; ++i) {
    errors.confusion.emplace_back();
    for (int64_t j = 0; j < C; ++j) errors.confusion.back().push_back(counts[i][j].item<int64_t>());
  }
  add_baselines(errors);
  return errors;
}

void add_baselines(ClassErrors& errors) {
  double all = 0, largest = 0, sum = 0, present = 0;
  errors.recall.clear();
  for (size_t c = 0; c < errors.confusion.size(); ++c) {
    const auto& row = errors.confusion[c];
    const double rows = std::accumulate(row.begin(), row.end(), 0.0);
    all += rows;
    largest = std::max(largest, rows);
    errors.recall.push_back(static_cast<double>(row.at(c)) / rows);  // 0/0 is NaN
    if (rows == 0) continue;
    sum += errors.recall.back();
    ++present;
  }
  errors.majority = all > 0 ? largest / all : 0;
  errors.balanced_accuracy = present > 0 ? sum / present : 0;
}

Errors measure_errors(const data::Preprocess& preprocess, const Tensor& predictions,
                      const Tensor& targets) {
  if (preprocess.has_classes()) {
    return {{preprocess.targets[0].name, measure_classes(preprocess, predictions, targets)}};
  }
  Errors errors;
  for (size_t i = 0; i < preprocess.targets.size(); ++i) {
    const Tensor target = targets.select(1, static_cast<int64_t>(i));
    const Tensor gap = predictions.select(1, static_cast<int64_t>(i)) - target;
    const double spread = (target - target.mean()).square().mean().item<double>();
    const double square = gap.square().mean().item<double>();
    NumberErrors found{std::sqrt(square), gap.abs().mean().item<double>(), std::nullopt};
    if (spread > 0) found.r2 = 1 - square / spread;
    errors.push_back({preprocess.targets[i].name, found});
  }
  return errors;
}

RowPredictions predict_rows(const Problem& problem, const Predictor& predictor,
                            const std::vector<int64_t>& rows) {
  const data::Preprocess& preprocess = problem.preprocess;
  const data::TableSamples samples(problem.table, preprocess, rows,
                                   data::TableSamples::Labels::kNone);
  return {predict_targets(predictor, preprocess, samples, problem.table.source),
          preprocess.targets_in_units(problem.table, rows)};
}

std::vector<std::string> class_names(const data::Preprocess& preprocess, const Tensor& scores) {
  std::vector<std::string> names;
  const Tensor best = scores.argmax(1);
  for (int64_t i = 0; i < best.size(0); ++i) {
    names.push_back(preprocess.classes()[static_cast<size_t>(best[i].item<int64_t>())]);
  }
  return names;
}

}  // namespace cdt::study
