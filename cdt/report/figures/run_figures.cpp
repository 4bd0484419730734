#include <cdt/report/figures/prediction_figures.h>
#include <cdt/report/figures/run_figures.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace cdt::report {
namespace {

using Style = Series::Style;
using train::StepRecord;
using Numbers = std::vector<double>;

constexpr size_t kMostPoints = 1000;  // per curve: more than the width of a screen
constexpr size_t kMostBars = 200;

/// A curve through the evaluated points. Each part of a long one keeps its lowest and highest
/// point, so that peaks remain.
Series curve(std::string name, const Numbers& x, const Numbers& y, Style style = Style::kLine) {
  Series series{std::move(name), {}, {}, {}, {}, style, false};
  std::vector<size_t> kept;
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isfinite(x[i]) && std::isfinite(y[i])) kept.push_back(i);
  }
  if (kept.size() > kMostPoints) {
    const std::vector<size_t> all = std::exchange(kept, {});
    const size_t width = (all.size() + kMostPoints / 2 - 1) / (kMostPoints / 2);
    kept.push_back(all.front());
    for (size_t from = 1; from + 1 < all.size(); from += width) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(from);
      const auto last =
          all.begin() + static_cast<std::ptrdiff_t>(std::min(from + width, all.size() - 1));
      auto [low, high] =
          std::minmax_element(first, last, [&](size_t a, size_t b) { return y[a] < y[b]; });
      if (high < low) std::swap(low, high);
      kept.push_back(*low);
      if (high != low) kept.push_back(*high);
    }
    kept.push_back(all.back());
  }
  for (const size_t i : kept) {
    series.x.push_back(x[i]);
    series.y.push_back(y[i]);
  }
  return series;
}

/// Whether a logarithmic axis would show most of the data.
bool mostly_positive(const std::vector<Series>& all) {
  size_t positive = 0;
  size_t count = 0;
  for (const Series& series : all) {
    count += series.y.size();
    for (const double y : series.y) positive += y > 0 ? 1 : 0;
  }
  return 2 * positive > count;
}

bool any_positive(const std::vector<Series>& all) {
  return std::any_of(all.begin(), all.end(), [](const Series& series) {
    return std::any_of(series.y.begin(), series.y.end(), [](double y) { return y > 0; });
  });
}

bool varies(const Series& series) {
  const auto [low, high] = std::minmax_element(series.y.begin(), series.y.end());
  return !series.y.empty() && *low != *high;
}

void add_if_any(std::vector<Series>& all, Series series) {
  if (!series.x.empty()) all.push_back(std::move(series));
}

std::optional<Figure> loss_figure(const Record& run) {
  const Numbers step = column(run, &StepRecord::step);
  Figure figure{
      "losses", "Loss", "Against the true labels, scaled.", {"step", false}, {"loss", true},
      {},       {}};
  add_if_any(figure.series, curve("training", step, column(run, &StepRecord::train_loss)));
  add_if_any(figure.series,
             curve(name_of(RowUse::kValidation, run), step, column(run, &StepRecord::val_loss)));
  if (figure.series.empty()) return std::nullopt;
  figure.y.logarithmic = mostly_positive(figure.series);
  return figure;
}

std::optional<Figure> control_figure(const Record& run) {
  Figure figure{"control",
                "Learning rate and label augments",
                "",
                {"step", false},
                {"learning rate", true},
                {"‖label augment‖", true},
                {}};
  const Numbers step = column(run, &StepRecord::step);
  const Series rate = curve("learning rate", step, column(run, &StepRecord::learning_rate));
  Series augment = curve("label augment (right)", step, column(run, &StepRecord::augment_norm));
  augment.second_axis = true;
  const bool augmented = any_positive({augment});
  if (!augmented && !varies(rate)) return std::nullopt;
  add_if_any(figure.series, rate);
  if (augmented) figure.series.push_back(std::move(augment));
  figure.caption = augmented ? "The rate of each step, and how far the labels were moved from the "
                               "true ones to steer it."
                             : "The rate of each step.";
  if (!augmented) figure.title = "Learning rate";
  return figure;
}

std::optional<Figure> local_figure(const Record& run) {
  Figure figure{"linearization-error",
                "Distance from the local model",
                "‖ŷ − ŷ_ϑ‖: how far the outputs have left what the last linearization predicts.",
                {"step", false},
                {"linearization error", true},
                {},
                {}};
  add_if_any(figure.series, curve("linearization error", column(run, &StepRecord::step),
                                  column(run, &StepRecord::linearization_error)));
  if (figure.series.empty()) return std::nullopt;
  figure.y.logarithmic = mostly_positive(figure.series);
  return figure;
}

/// Refreshed kernels and rejected steps. In a long run a bar covers several steps.
std::optional<Figure> events_figure(const Record& run) {
  const Numbers step = column(run, &StepRecord::step);
  const Numbers refreshed = column(run, &StepRecord::refreshed);
  const Numbers rejected = column(run, &StepRecord::rejected);
  if (step.empty()) return std::nullopt;
  const double width = std::max(1.0, std::ceil(step.back() / static_cast<double>(kMostBars)));
  std::map<double, std::pair<double, double>> bars;
  double later = 0;  // every controlled run has a first linearization
  for (size_t i = 0; i < step.size(); ++i) {
    if (!(refreshed[i] > 0) && !(rejected[i] > 0)) continue;
    auto& bar = bars[std::floor(step[i] / width) * width];
    if (refreshed[i] > 0) bar.first += refreshed[i];
    if (rejected[i] > 0) bar.second += rejected[i];
    if (i > 0 || rejected[i] > 0) ++later;
  }
  if (later == 0) return std::nullopt;
  Series kernels{"kernel computed anew", {}, {}, {}, {}, Style::kBars, false};
  Series refused{"steps taken back", {}, {}, {}, {}, Style::kBars, false};
  for (const auto& [at, counts] : bars) {
    kernels.x.push_back(at);
    refused.x.push_back(at);
    kernels.y.push_back(counts.first);
    refused.y.push_back(counts.second);
  }
  Figure figure{"events",
                "Refreshed kernels and rejected steps",
                "",
                {"step", false},
                {"count", false},
                {},
                {kernels, refused}};
  figure.caption = "Where the guard computed the kernel anew, and where it took steps back.";
  if (width > 1) figure.caption += fmt::format(" A bar stands for {:.0f} steps.", width);
  return figure;
}

std::optional<Figure> spectrum_figure(const study::Spectrum& modes) {
  if (modes.mode.empty()) return std::nullopt;
  Figure figure{"spectrum",
                "Kernel spectrum and what a step leaves of each mode",
                "Left: s = α c_L λ, the share of a mode's error that a step of gradient descent "
                "removes; above 2 "
                "it grows instead. Right: what a step leaves of the mode's error (below 1 it "
                "shrinks), and the "
                "factor 1 + k(s) by which control scales the error that is fed back. Modes from "
                "the fastest to "
                "the slowest, as the network was before training.",
                {"mode", false},
                {"s", true},
                {"factor", true},
                {}};
  add_if_any(figure.series, curve("s", modes.mode, modes.step));
  const auto right = [&](const char* name, Numbers values, double offset, Style style) {
    for (double& value : values) value = std::abs(value + offset);
    Series series = curve(name, modes.mode, values, style);
    series.second_axis = true;
    add_if_any(figure.series, std::move(series));
  };
  right("left by gradient descent, |1 − s|", modes.factor_gd, 0, Style::kDashed);
  right("left by controlled descent", modes.factor_cdt, 0, Style::kDashed);
  right("steering 1 + k(s)", modes.gain, 1, Style::kLine);
  return figure;
}

}  // namespace

std::vector<Figure> run_figures(const Record& run) {
  std::vector<Figure> figures;
  const auto add = [&](std::optional<Figure> figure) {
    if (figure) figures.push_back(std::move(*figure));
  };
  // A path has no learning rate or label augments, and computes the kernel at every point.
  if (auto path = path_figure(run)) {
    add(std::move(path));
  } else {
    add(loss_figure(run));
    add(control_figure(run));
    add(local_figure(run));
    add(events_figure(run));
  }
  for (size_t i = 0; i < run.predictions.targets.size(); ++i) {
    add(prediction_figure(run, i));
    add(residual_figure(run, i));
    add(reliability_figure(run, i));
  }
  add(spectrum_figure(run.spectrum));
  return figures;
}

std::vector<Figure> overlay_figures(const std::vector<Record>& runs) {
  std::vector<Figure> figures;
  const auto add = [&](const char* id, const std::string& title, auto x, const char* label,
                       double StepRecord::*y) {
    Figure figure{id, title, "Against the true labels, scaled.", {label, false}, {"loss", true},
                  {}, {}};
    for (const Record& run : runs) {
      add_if_any(figure.series, curve(run.name, column(run, x), column(run, y)));
    }
    if (figure.series.empty()) return;
    figure.y.logarithmic = mostly_positive(figure.series);
    figures.push_back(std::move(figure));
  };
  const bool predict = std::all_of(runs.begin(), runs.end(), predicts);
  const std::string validation = predict ? "Held-out loss" : "Validation loss";
  constexpr auto kTraining = &StepRecord::train_loss, kValidation = &StepRecord::val_loss;
  add("training-loss", "Training loss", &StepRecord::step, "step", kTraining);
  add("validation-loss", validation, &StepRecord::step, "step", kValidation);
  add("training-loss-time", "Training loss over time", &StepRecord::seconds, "seconds", kTraining);
  add("validation-loss-time", validation + " over time", &StepRecord::seconds, "seconds",
      kValidation);
  return figures;
}

}  // namespace cdt::report
