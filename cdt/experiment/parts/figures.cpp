#include <cdt/experiment/parts/figures.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

namespace cdt::experiment {
namespace {

using report::Figure;
using report::Series;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
/// Training loss to which the figure of rates counts steps: low enough to be meaningful, high
/// enough for gradient descent to reach it at some rates.
constexpr double kGoal = 5e-3;
/// The same for the cross entropy, which smoothed labels keep above zero.
constexpr double kClassGoal = 0.2;

std::vector<double> to_doubles(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

/// Letters, digits and hyphens only.
std::string identifier(std::string text) {
  std::erase(text, '+');  // distinguishes 1e+06 from 1e-06
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  }
  return text;
}

Figure relative_figure(const Plan& plan, const std::vector<Row>& rows,
                       const std::string& architecture) {
  Figure figure;
  figure.id = "relative-" + identifier(architecture);
  figure.title = fmt::format("Architecture {}: what CDT gains over gradient descent", architecture);
  figure.caption =
      "Mean difference of the validation losses, L_GD − L_CDT, at learning rates where all runs of "
      "both converge. A gap is a negative difference, which a logarithmic axis cannot show (paper, "
      "Fig. relative).";
  figure.x = {"step", false};
  figure.y = {"L_GD − L_CDT", true};
  for (const double lr : plan.lrs) {
    const Row* gd = find_row(rows, architecture, "gd", lr);
    const Row* cdt = find_row(rows, architecture, "cdt", lr);
    if (gd == nullptr || cdt == nullptr || !gd->all_converged() || !cdt->all_converged()) continue;
    auto [steps, difference] = mean_difference(*gd, *cdt);
    figure.series.push_back(
        {fmt::format("lr {:g}", lr), to_doubles(steps), std::move(difference), {}, {}});
  }
  return figure;
}

/// Runs at one rate; 0: at rates chosen by their methods.
Figure validation_figure(const Plan& plan, const std::vector<Row>& rows,
                         const std::string& architecture, double lr) {
  Figure figure;
  figure.id = fmt::format("validation-{}-{}", identifier(architecture),
                          lr > 0 ? "lr-" + identifier(fmt::format("{}", lr)) : "own-rate");
  figure.title = fmt::format(
      "Architecture {}, {}: validation loss", architecture,
      lr > 0 ? fmt::format("learning rate {:g}", lr) : "each method at a rate of its own");
  std::string lost;
  figure.x = {"step", false};
  figure.y = {"validation loss", true};
  for (const std::string& method : lr > 0 ? plan.methods : plan.own_rate) {
    const Row* row = find_row(rows, architecture, method, lr);
    if (row == nullptr || predicts(method)) continue;  // methods that predict have no curve
    if (!row->all_converged()) {
      lost += fmt::format(" {} of {} runs of {} diverged.",
                          static_cast<int64_t>(row->runs.size()) - row->converged, row->runs.size(),
                          method);
    }
    if (row->converged == 0) {  // a name without a curve, so that colours are the same in all
                                // figures
      figure.series.push_back({method + " (diverged)", {0}, {kGap}, {}, {}});
      continue;
    }
    const MeanCurve curve = mean_curve(*row, Quantity::kValidation);
    Series series{method, to_doubles(curve.step), curve.mean, {}, {}};
    for (size_t k = 0; k < curve.mean.size(); ++k) {
      // A band below zero would leave a logarithmic axis.
      series.low.push_back(std::max(curve.mean[k] - curve.spread[k], curve.mean[k] / 10));
      series.high.push_back(curve.mean[k] + curve.spread[k]);
    }
    figure.series.push_back(std::move(series));
  }
  const bool drawn = std::any_of(figure.series.begin(), figure.series.end(),
                                 [](const Series& each) { return !each.low.empty(); });
  if (!drawn) figure.series.clear();
  figure.caption =
      "Mean over the initializations that converge, and one standard deviation around "
      "it (paper, App. figs)." +
      lost;
  return figure;
}

std::vector<Figure> sample_figures(const Plan& plan, const std::vector<Row>& rows) {
  const Row* gd = find_row(rows, plan.samples.architecture, "gd", plan.samples.lr);
  const Row* cdt = find_row(rows, plan.samples.architecture, "cdt", plan.samples.lr);
  if (gd == nullptr || cdt == nullptr) return {};
  const auto traced = [](const Row& row) -> const CaseRun* {
    for (const CaseRun* run : row.runs) {
      if (!run->traces.empty()) return run;
    }
    return nullptr;
  };
  const CaseRun* plain = traced(*gd);
  const CaseRun* steered = traced(*cdt);
  if (plain == nullptr || steered == nullptr) return {};
  std::vector<Figure> figures;
  for (size_t i = 0; i < std::min(plain->traces.size(), steered->traces.size()); ++i) {
    Figure figure;
    figure.id = fmt::format("sample-{}", i + 1);
    figure.title = fmt::format("Sample {} under both methods", i + 1);
    figure.caption = fmt::format(
        "Output, true label and augmented label of one training sample; architecture {}, learning "
        "rate {:g}, first seed (paper, Fig. samples).",
        plan.samples.architecture, plan.samples.lr);
    figure.x = {"step", false};
    figure.y = {"scaled target", false};
    const auto steps = to_doubles(steered->trace_step);
    const SampleTrace& trace = steered->traces[i];
    figure.series = {
        {"output under CDT", steps, trace.outputs, {}, {}},
        {"output under GD", to_doubles(plain->trace_step), plain->traces[i].outputs, {}, {}},
        {"augmented label", steps, trace.augmented, {}, {}, Series::Style::kDashed},
        {"true label",
         steps,
         std::vector<double>(steps.size(), trace.label),
         {},
         {},
         Series::Style::kDashed}};
    figures.push_back(std::move(figure));
  }
  return figures;
}

Figure spectrum_figure(const CaseRun& run) {
  Figure figure;
  figure.id = "spectrum-" + identifier(run.what.architecture);
  figure.title = fmt::format("Architecture {}: kernel spectrum and what the controller makes of it",
                             run.what.architecture);
  figure.caption = fmt::format(
      "Eigenvalues of the kernel before training, seed {}, and at learning rate {:g} the gain k(s) "
      "of each mode with the factor that one step leaves of its error, under gradient descent and "
      "under CDT. Factors of gradient descent below −2 are cut off.",
      run.what.seed, run.lr);
  figure.x = {"mode, largest eigenvalue first", true};
  figure.y = {"eigenvalue λ", true};
  figure.y2 = {"gain, factor", false};
  std::vector<double> modes;
  std::vector<double> factors;
  for (size_t i = 0; i < run.eigenvalues.size(); ++i) {
    modes.push_back(static_cast<double>(i + 1));
    factors.push_back(run.factor_gd[i] < -2 ? kGap : run.factor_gd[i]);
  }
  figure.series = {
      {"eigenvalue", modes, run.eigenvalues, {}, {}, Series::Style::kPoints},
      {"gain k(s)", modes, run.gain, {}, {}, Series::Style::kLine, true},
      {"factor under GD", modes, factors, {}, {}, Series::Style::kDashed, true},
      {"factor under CDT", modes, run.factor_cdt, {}, {}, Series::Style::kDashed, true}};
  return figure;
}

/// The first step at which the training loss is at most `goal`; NaN if there is none, or if the run
/// diverges later.
double steps_to(const CaseRun& run, double goal) {
  if (!run.converged()) return kGap;
  for (size_t k = 0; k < run.step.size(); ++k) {
    if (run.train[k] <= goal) return static_cast<double>(run.step[k]);
  }
  return kGap;
}

Figure rates_figure(const Plan& plan, const std::vector<CaseRun>& runs,
                    const std::string& architecture) {
  const double goal = plan.loss->quadratic() ? kGoal : kClassGoal;
  Figure figure;
  figure.id = "rates-" + identifier(architecture);
  figure.title =
      fmt::format("Architecture {}: steps to a training loss of {:g}", architecture, goal);
  figure.caption =
      "Median over the seeds; no point where half of them or more do not get there (too slow, or "
      "diverged). Once the loop is closed and guarded, the learning rate stops mattering.";
  figure.x = {"learning rate", true};
  figure.y = {"steps", true};
  for (const std::string& method : plan.methods) {
    std::map<double, std::vector<double>> by_rate;
    for (const CaseRun& run : runs) {
      if (run.what.architecture == architecture && run.what.method == method && run.what.lr > 0 &&
          run.what.p == plan.p) {
        const double steps = steps_to(run, goal);
        by_rate[run.what.lr].push_back(std::isnan(steps) ? HUGE_VAL : std::max(steps, 1.0));
      }
    }
    if (by_rate.empty()) continue;
    Series series;
    series.name = method;
    for (auto& [lr, steps] : by_rate) {
      std::sort(steps.begin(), steps.end());
      const double median = steps[steps.size() / 2];
      series.x.push_back(lr);
      series.y.push_back(std::isfinite(median) ? median : kGap);
    }
    figure.series.push_back(std::move(series));
  }
  return figure;
}

/// Losses of a guarded run with the guard's actions.
std::optional<Figure> guard_figure(const Plan& plan, const std::vector<CaseRun>& runs,
                                   const std::string& architecture) {
  const CaseRun* chosen = nullptr;
  for (const CaseRun& run : runs) {
    if (run.what.architecture == architecture && run.what.method == "guarded" &&
        run.what.seed == 1 && run.what.steps == plan.steps && run.what.p == plan.p &&
        (chosen == nullptr || run.what.lr > chosen->what.lr)) {
      chosen = &run;
    }
  }
  if (chosen == nullptr) return std::nullopt;
  Figure figure;
  figure.id = "guard-" + identifier(architecture);
  figure.title = fmt::format("Architecture {}: what the guard did", architecture);
  figure.caption = fmt::format(
      "Training loss of the guarded run at {}, seed 1, and how many kernels were computed and how "
      "many steps taken back by then.",
      chosen->what.lr > 0 ? fmt::format("learning rate {:g}", chosen->what.lr)
                          : "a rate of its own");
  figure.x = {"step", false};
  figure.y = {"training loss", true};
  figure.y2 = {"count", false};
  const auto steps = to_doubles(chosen->step);
  const auto so_far = [](const std::vector<int64_t>& counts) {
    std::vector<double> sums(counts.size());
    std::partial_sum(counts.begin(), counts.end(), sums.begin());
    return sums;
  };
  figure.series = {
      {"training loss", steps, chosen->train, {}, {}},
      {"kernels computed", steps, so_far(chosen->refreshed), {}, {}, Series::Style::kDashed, true},
      {"steps taken back",
       steps,
       so_far(chosen->rejections),
       {},
       {},
       Series::Style::kDashed,
       true}};
  return figure;
}

}  // namespace

std::vector<Figure> draw_figures(const Plan& plan, const std::vector<Row>& rows,
                                 const std::vector<CaseRun>& runs) {
  std::vector<Figure> figures;
  std::set<std::string> ids;  // names that differ only in other characters have equal ids
  const auto add = [&](Figure figure) {
    if (figure.series.empty()) return;
    const std::string id = figure.id;
    for (int n = 2; !ids.insert(figure.id).second; ++n) figure.id = fmt::format("{}-{}", id, n);
    figures.push_back(std::move(figure));
  };
  for (const Architecture& each : plan.architectures) add(relative_figure(plan, rows, each.name));
  for (const Architecture& each : plan.architectures) add(rates_figure(plan, runs, each.name));
  for (Figure& figure : sample_figures(plan, rows)) add(std::move(figure));
  for (const Architecture& each : plan.architectures) {
    for (const CaseRun& run : runs) {
      if (run.what.details && run.what.architecture == each.name) add(spectrum_figure(run));
    }
  }
  for (const Architecture& each : plan.architectures) {
    if (auto figure = guard_figure(plan, runs, each.name)) add(*std::move(figure));
  }
  for (const Architecture& each : plan.architectures) {
    for (const double lr : plan.lrs) add(validation_figure(plan, rows, each.name, lr));
    add(validation_figure(plan, rows, each.name, 0));
  }
  return figures;
}

}  // namespace cdt::experiment
