#include <cdt/report/figures/prediction_figures.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace cdt::report {
namespace {

using Style = Series::Style;

constexpr std::array kUses{RowUse::kTraining, RowUse::kValidation, RowUse::kTest};
constexpr size_t kMostRows = 1000;  // per cloud
constexpr int kBins = 10;

/// "training rows", "rows held out", "test rows".
std::string rows_of(RowUse use, const Record& run) {
  const bool held_out = use == RowUse::kValidation && predicts(run);
  return held_out ? "rows held out" : name_of(use, run) + " rows";
}

struct Point {
  double x;
  double y;
};

/// Adds a cloud per use of rows, of at most kMostRows each; the caption says what was left out.
template <class Place>
void add_clouds(Figure& figure, const Record& run, size_t rows, const Place& place) {
  for (const RowUse use : kUses) {
    Series points{rows_of(use, run), {}, {}, {}, {}, Style::kPoints, false};
    std::vector<size_t> shown;
    for (size_t i = 0; i < rows; ++i) {
      if (run.predictions.use[i] == use) shown.push_back(i);
    }
    const size_t every = shown.size() / kMostRows + 1;
    for (size_t i = 0; i < shown.size(); i += every) {
      const Point point = place(shown[i]);
      points.x.push_back(point.x);
      points.y.push_back(point.y);
    }
    if (every > 1) {
      figure.caption += fmt::format(" Of the {}, 1 in {} is shown.", points.name, every);
    }
    if (!points.x.empty()) figure.series.push_back(std::move(points));
  }
}

/// The range of x over all series.
Point range_of(const Figure& figure) {
  Point range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const Series& series : figure.series) {
    for (const double x : series.x) range = {std::min(range.x, x), std::max(range.y, x)};
  }
  return range;
}

/// A proportion of n with its 95 % Wilson interval, which stays within 0 and 1.
struct Share {
  double value;
  double low;
  double high;
};
Share share_of(double hits, double n) {
  constexpr double kZ = 1.96;
  const double p = hits / n;
  const double scale = 1 / (1 + kZ * kZ / n);
  const double middle = scale * (p + kZ * kZ / (2 * n));
  const double half = scale * kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  return {p, std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

struct Bin {
  double rows = 0;
  double probability = 0;
  double hits = 0;
};

std::array<Bin, kBins> bins_of(const Record& run, const study::TargetPredictions& target,
                               RowUse use) {
  std::array<Bin, kBins> bins{};
  const auto& all = target.probabilities;
  for (size_t i = 0; i < target.true_class.size(); ++i) {
    if (run.predictions.use[i] != use) continue;
    // For two classes one suffices; for more, uses the predicted one.
    size_t said = 1;
    if (all.size() > 2) {
      for (size_t c = said = 0; c < all.size(); ++c) said = all[c][i] > all[said][i] ? c : said;
    }
    const double probability = all[said][i];
    if (!std::isfinite(probability)) continue;
    const auto at = static_cast<int>(std::clamp(probability * kBins, 0.0, kBins - 1.0));
    Bin& bin = bins[static_cast<size_t>(at)];
    ++bin.rows;
    bin.probability += probability;
    bin.hits += target.true_class[i] == target.classes[said] ? 1 : 0;
  }
  return bins;
}

Table confusion_table(const Record& run, const study::TargetPredictions& target, RowUse use) {
  constexpr size_t kMostClasses = 20;
  std::map<std::string, std::map<std::string, int64_t>> counts;
  for (size_t i = 0; i < target.true_class.size(); ++i) {
    if (run.predictions.use[i] != use) continue;
    ++counts[target.true_class[i]][target.predicted_class[i]];
    counts[target.predicted_class[i]];
  }
  Table table{fmt::format("{}, {}: true against predicted", target.name, rows_of(use, run)),
              {"true \\ predicted"},
              {},
              ""};
  if (counts.size() > kMostClasses) return table;
  for (const auto& [name, unused] : counts) table.columns.push_back(name);
  const size_t classes = table.columns.size();
  table.columns.emplace_back("right");
  for (auto& [name, row] : counts) {
    std::vector<std::string> cells{name};
    int64_t rows = 0;
    for (size_t c = 1; c < classes; ++c) {
      cells.push_back(std::to_string(row[table.columns[c]]));
      rows += row[table.columns[c]];
    }
    const double share = static_cast<double>(row[name]) / static_cast<double>(rows);
    cells.push_back(rows == 0 ? "–" : fmt::format("{:.1f} %", 100 * share));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// Selected points by activation; a single one if activations are not distinguished.
std::vector<study::PickedPoint> picked_points(const Record& run) {
  if (!run.prediction) return {};
  if (!run.prediction->picked.empty()) return run.prediction->picked;
  return {{nn::Activation::kRelu, run.prediction->points, kNotKnown}};
}

}  // namespace

std::string name_of(RowUse use, const Record& run) {
  if (use == RowUse::kValidation) return predicts(run) ? "held out" : "validation";
  return use == RowUse::kTraining ? "training" : "test";
}

std::optional<Figure> path_figure(const Record& run) {
  if (!walks_path(run)) return std::nullopt;
  Series training{"training", {}, {}, {}, {}};
  Series held_out{name_of(RowUse::kValidation, run), {}, {}, {}, {}};
  // Each activation has its own point; in older runs, and with one activation, it lies on the
  // curve.
  std::vector<Series> picked;
  const auto points = picked_points(run);
  for (const study::PickedPoint& each : points) {
    const std::string name =
        points.size() > 1 ? "picked point of " + nn::to_string(each.activation) : "picked point";
    picked.push_back({name, {}, {}, {}, {}, Style::kPoints, false});
  }
  Series freedom{"effective parameters (right)", {}, {}, {}, {}, Style::kDashed, true};
  const auto add = [](Series& series, double x, double y) {
    if (!(x > 0) || !std::isfinite(y)) return;
    series.x.push_back(x);
    series.y.push_back(y);
  };
  for (size_t i = 1; i < run.history.size(); ++i) {
    const train::StepRecord &row = run.history[i], &before = run.history[i - 1];
    const double tau = before.decay;
    add(training, tau, row.train_loss);
    add(held_out, tau, row.val_loss);
    add(freedom, tau, before.freedom);
    for (size_t k = 0; k < points.size(); ++k) {
      if (row.step != points[k].point) continue;
      add(picked[k], tau, points.size() > 1 ? points[k].loss : row.val_loss);
    }
  }
  Figure figure{"path",
                "The path",
                "Loss at each point of the path, from the smoothest model on the left to the one "
                "that follows the training rows most closely on the right. Rows held out pick the "
                "point: where their curve turns up, the model has begun to follow noise. The "
                "effective number of parameters, tr Θ(Θ + τI)⁻¹, counts the directions in which "
                "the model follows the rows.",
                {"decay τ", true, true},
                {"loss", true},
                {"effective parameters", false},
                {}};
  std::vector<Series> all{std::move(training), std::move(held_out), std::move(freedom)};
  std::move(picked.begin(), picked.end(), std::back_inserter(all));
  for (Series& series : all) {
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  if (figure.series.empty()) return std::nullopt;
  if (points.size() > 1) {
    figure.caption +=
        " The curves are of all networks together; each activation has its own point, at the "
        "loss of its held-out rows.";
  }
  if (run.prediction && run.prediction->points == 0) {
    figure.caption += " Here no point was better than the start, which has learned nothing.";
  }
  return figure;
}

/// The bounds of predictions, averaged over neighbours: the band that contains nine of ten new
/// rows.
std::optional<Series> band_of(const study::TargetPredictions& target) {
  constexpr size_t kPlaces = 24;
  std::vector<size_t> rows;
  for (size_t i = 0; i < target.low.size(); ++i) {
    if (std::isfinite(target.low[i]) && std::isfinite(target.high[i])) rows.push_back(i);
  }
  if (rows.size() < 2) return std::nullopt;
  std::sort(rows.begin(), rows.end(),
            [&](size_t a, size_t b) { return target.predicted[a] < target.predicted[b]; });
  Series band{"9 of 10 new rows", {}, {}, {}, {}, Style::kDashed, false};
  const size_t places = std::min(kPlaces, rows.size());
  for (size_t k = 0; k < places; ++k) {
    const size_t first = k * rows.size() / places, last = (k + 1) * rows.size() / places;
    double x = 0, low = 0, high = 0;
    for (size_t i = first; i < last; ++i) {
      x += target.predicted[rows[i]];
      low += target.low[rows[i]];
      high += target.high[rows[i]];
    }
    const auto count = static_cast<double>(last - first);
    band.x.push_back(x / count);
    band.y.push_back(x / count);
    band.low.push_back(low / count);
    band.high.push_back(high / count);
  }
  return band;
}

std::optional<Figure> prediction_figure(const Record& run, size_t number) {
  const study::TargetPredictions& target = run.predictions.targets.at(number);
  if (target.truth.empty()) return std::nullopt;
  Figure figure{fmt::format("predictions-{}", number + 1),
                fmt::format("Predicted and true {}", target.name),
                "A point per row of the file, in its units; on the diagonal a prediction is exact.",
                {"predicted " + target.name, false},
                {"true " + target.name, false},
                {},
                {}};
  if (predicts(run)) {
    figure.caption +=
        " Rows held out were predicted by networks that had not seen them: new rows will lie "
        "about as far off.";
  }
  add_clouds(figure, run, target.truth.size(), [&](size_t i) {
    return Point{target.predicted[i], target.truth[i]};
  });
  if (auto band = band_of(target)) {
    figure.caption += " In the band nine of ten new rows will lie, the mean over neighbours.";
    figure.series.push_back(std::move(*band));
    return figure;
  }
  const Point ends = range_of(figure);
  figure.series.push_back(
      {"exact", {ends.x, ends.y}, {ends.x, ends.y}, {}, {}, Style::kDashed, false});
  return figure;
}

std::optional<Figure> residual_figure(const Record& run, size_t number) {
  const study::TargetPredictions& target = run.predictions.targets.at(number);
  if (target.truth.empty()) return std::nullopt;
  Figure figure{fmt::format("residuals-{}", number + 1),
                fmt::format("Residuals of {}", target.name),
                "True less predicted, in units of the file. A cloud that bends away from zero is "
                "something that the model has missed; one that widens has errors that grow with "
                "the prediction.",
                {"predicted " + target.name, false},
                {"true − predicted", false},
                {},
                {}};
  add_clouds(figure, run, target.truth.size(), [&](size_t i) {
    return Point{target.predicted[i], target.truth[i] - target.predicted[i]};
  });
  const Point ends = range_of(figure);
  figure.series.push_back({"exact", {ends.x, ends.y}, {0, 0}, {}, {}, Style::kDashed, false});
  return figure;
}

std::optional<Figure> reliability_figure(const Record& run, size_t number) {
  const study::TargetPredictions& target = run.predictions.targets.at(number);
  if (target.classes.size() < 2 || target.true_class.empty()) return std::nullopt;
  const bool two = target.classes.size() == 2;
  Figure figure{
      fmt::format("reliability-{}", number + 1),
      fmt::format("Reliability of {}", target.name),
      "",
      {two ? fmt::format("predicted probability of {}", target.classes[1])
           : "probability of the predicted class",
       false},
      {two ? fmt::format("share of {}", target.classes[1]) : "share that is right", false},
      {"rows", false},
      {}};
  figure.caption = fmt::format(
      "Rows are put into {} bins by {}; each bin shows how often it came true, and the 95 % "
      "interval of that after Wilson. On the diagonal probabilities can be taken at their word; "
      "below it they promise too much. Bars count the rows of a bin (right).",
      kBins, two ? "this probability" : "the probability of the class that was predicted");
  std::vector<Series> counts;
  for (const RowUse use : {RowUse::kValidation, RowUse::kTest}) {
    Series curve{rows_of(use, run), {}, {}, {}, {}};
    Series count{"number of " + rows_of(use, run), {}, {}, {}, {}, Style::kBars, true};
    for (const Bin& bin : bins_of(run, target, use)) {
      if (bin.rows == 0) continue;
      const Share share = share_of(bin.hits, bin.rows);
      curve.x.push_back(bin.probability / bin.rows);
      curve.y.push_back(share.value);
      curve.low.push_back(share.low);
      curve.high.push_back(share.high);
      count.y.push_back(bin.rows);
    }
    if (curve.x.empty()) continue;
    count.x = curve.x;
    figure.series.push_back(std::move(curve));
    counts.push_back(std::move(count));
  }
  if (figure.series.empty()) return std::nullopt;
  const double from = two ? 0 : 1.0 / static_cast<double>(target.classes.size());
  figure.series.push_back({"at its word", {from, 1}, {from, 1}, {}, {}, Style::kDashed, false});
  for (Series& count : counts) figure.series.push_back(std::move(count));
  return figure;
}

std::vector<Table> confusion_tables(const Record& run) {
  std::vector<Table> tables;
  const std::vector<RowUse>& all = run.predictions.use;
  for (const study::TargetPredictions& target : run.predictions.targets) {
    // A run that predicts lists as training rows only those never held out.
    const bool held_out =
        predicts(run) && std::find(all.begin(), all.end(), RowUse::kValidation) != all.end();
    for (const RowUse use : kUses) {
      if (held_out && use == RowUse::kTraining) continue;
      Table table = confusion_table(run, target, use);
      if (!table.rows.empty()) tables.push_back(std::move(table));
    }
  }
  return tables;
}

}  // namespace cdt::report
