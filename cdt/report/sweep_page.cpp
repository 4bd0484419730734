#include <cdt/core/error.h>
#include <cdt/report/sweep_page.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace cdt::report {
namespace {

/// −3 as ⁻³.
std::string raised(int exponent) {
  constexpr std::array kDigits{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(exponent))) {
    text += kDigits[static_cast<size_t>(digit - '0')];
  }
  return text;
}

/// The power of ten in which a table gives its losses, so that digits can be compared: that of the
/// median, in steps of three.
int common_exponent(const std::vector<SweepTableRow>& rows) {
  std::vector<double> values;
  for (const SweepTableRow& row : rows) {
    if (row.validation.mean > 0) values.push_back(row.validation.mean);
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return 3 * static_cast<int>(std::floor(std::log10(*middle) / 3));
}

/// "2.33 ± 1.24" in that unit, with non-breaking spaces; no number if diverged.
std::string mean_and_spread(const MeanLoss& loss, double unit) {
  const double value = loss.mean / unit;
  const double width = loss.spread / unit;
  if (std::isnan(value)) return "diverged";
  if (std::isnan(width)) return show(value);
  return value < 1e4 ? fmt::format("{:.2f}\u00a0±\u00a0{:.2f}", value, width)
                     : fmt::format("{:.2e}\u00a0±\u00a0{:.2e}", value, width);
}

/// "0.483 ± 0.012".
std::string entropy_text(const MeanLoss& loss) {
  if (std::isnan(loss.mean)) return "diverged";
  return fmt::format("{:.3f}\u00a0±\u00a0{:.3f}", loss.mean, loss.spread);
}

/// "yes" and "no" for all runs, "9 of 10" if they differ and the results have the counts.
std::string yes_or_share(const std::optional<bool>& all, const std::optional<int64_t>& count,
                         const std::optional<int64_t>& runs) {
  if (count && runs && *count > 0 && *count < *runs) {
    return fmt::format("{}\u00a0of\u00a0{}", *count, *runs);
  }
  return !all ? show("") : *all ? "yes" : "no";
}

std::string brief(double value) { return std::isnan(value) ? "–" : fmt::format("{:.3g}", value); }

/// A table per architecture, in order of first appearance.
std::vector<Table> rows_tables(const SweepRecord& sweep) {
  const std::vector<SweepTableRow>& rows = sweep.rows;
  const bool published = std::any_of(rows.begin(), rows.end(),
                                     [](const auto& row) { return row.published.has_value(); });
  const bool trained = std::any_of(rows.begin(), rows.end(),
                                   [](const auto& row) { return !std::isnan(row.train_mean); });
  const auto measured =
      std::find_if(rows.begin(), rows.end(), [](const auto& row) { return !row.errors.empty(); });
  const std::vector<SweepError> errors =
      measured == rows.end() ? std::vector<SweepError>() : measured->errors;
  const int exponent = sweep.classes ? 0 : common_exponent(rows);
  const std::string loss = sweep.classes ? "cross entropy" : "MSE";
  const double unit = std::pow(10, exponent);
  const std::string in_units = exponent == 0 ? "" : fmt::format(",\u00a010{}", raised(exponent));
  std::vector<std::string> columns{"Learning rate", "Method", "Reachable", "Contracting",
                                   "Converged"};
  columns.push_back("Validation " + loss + in_units);
  for (const SweepError& error : errors) {
    columns.push_back((error.is_class ? "Error rate of " : "RMSE of ") + show(error.target));
  }
  if (published) columns.insert(columns.end(), {"Published", "Difference"});
  if (trained) columns.push_back("Training " + loss + in_units);
  columns.emplace_back("Seconds");

  std::vector<Table> tables;
  std::vector<std::string> names;  // of their architectures
  for (const SweepTableRow& row : rows) {
    auto place = std::find(names.begin(), names.end(), row.architecture) - names.begin();
    if (place == std::ssize(names)) {
      names.push_back(row.architecture);
      const std::string shape = row.shape.empty() ? "" : fmt::format(" ({})", row.shape);
      tables.push_back({"Architecture " + show(row.architecture) + shape, columns, {}, ""});
    }
    std::vector<std::string> cells{
        show(row.lr) + (row.own_rate ? "\u00a0(own)" : ""),
        show(row.method),
        yes_or_share(row.reachable, row.reachable_runs, row.runs),
        yes_or_share(row.strictly_contracting, row.strictly_contracting_runs, row.runs),
        show(row.converged) + "\u00a0of\u00a0" + show(row.runs),
        sweep.classes ? entropy_text(row.validation) : mean_and_spread(row.validation, unit)};
    for (size_t t = 0; t < errors.size(); ++t) {
      cells.push_back(t < row.errors.size() ? show(row.errors[t], "\u00a0") : show(""));
    }
    if (published) {
      cells.push_back(row.published ? mean_and_spread(row.published->loss, unit) : "");
      cells.push_back(std::isnan(row.difference) ? "" : fmt::format("{:+.1f}", row.difference));
    }
    if (trained) cells.push_back(brief(row.train_mean / unit));
    cells.push_back(brief(row.seconds));
    tables[static_cast<size_t>(place)].rows.push_back(std::move(cells));
  }
  tables.back().note =
      "Mean ± standard deviation over the runs that converged. Contracting: every mode of the "
      "local "
      "model shrinks without changing its sign (α c_L λ_max < 1).";
  if (!errors.empty()) {
    tables.back().note += errors.front().is_class
                              ? " Error rate: the share of validation rows whose class is wrong."
                              : " RMSE: root of the mean squared error on the validation rows, in "
                                "units of the file.";
  }
  if (published) {
    tables.back().note += " Difference: ours less the published one, in units of its spread.";
  }
  return tables;
}

Table claims_table(const std::vector<Claim>& claims) {
  Table table{"", {"Claim", "Here", "Evidence"}, {}, ""};
  for (const Claim& claim : claims) {
    const char* here = !claim.held ? "cannot be said" : *claim.held ? "held" : "not held";
    table.rows.push_back({show(claim.text), here, claim.evidence});
  }
  return table;
}

Table settings_table(const std::vector<Setting>& settings) {
  Table table{"", {"Setting", "Value", "Source", "Why"}, {}, ""};
  for (const Setting& each : settings) {
    table.rows.push_back({each.name, each.value, each.source, each.note});
  }
  return table;
}

Section machine_section(const SweepRecord& sweep) {
  Section section{"Data, machine and timings", {}, {}, {}, "", false};
  const auto add = [&](const std::vector<NameValue>& values, const char* title) {
    if (!values.empty()) section.tables.push_back(name_value_table(values, title));
  };
  add(sweep.data, "Data");
  add(sweep.machine, "Machine");
  add(sweep.timings, "Timings");
  section.tables.push_back({"Program",
                            {"", ""},
                            {{"version", show(sweep.version)}, {"revision", show(sweep.revision)}},
                            ""});
  return section;
}

}  // namespace

void SweepError::fields(Fields& f) {
  f.need("target", target);
  is_class = f.has("error_rate_mean", is_class);
  const std::string name = is_class ? "error_rate" : "rmse";
  f(name + "_mean", error.mean);
  f(name + "_std", error.spread);
}

void SweepTableRow::fields(Fields& f) {
  f("architecture", architecture);
  f("shape", shape);
  f("lr", lr);
  f("method", method);
  f("reachable", reachable);
  f("reachable_runs", reachable_runs);
  f("strictly_contracting", strictly_contracting);
  f("strictly_contracting_runs", strictly_contracting_runs);
  f("converged", converged);
  f("runs", runs);
  validation.fields(f);
  f("train_mse_mean", train_mean);
  f("seconds", seconds);
  f("published", published);
  f("difference", difference);
  f.some("own_rate", own_rate);
  f.some("errors", errors);
}

std::string show(const SweepError& error, const std::string& blank) {
  const auto& [mean, spread] = error.error;
  const std::string between = blank + "±" + blank;
  if (error.is_class) {
    return fmt::format("{:.1f}{}{:.1f}{}%", 100 * mean, between, 100 * spread, blank);
  }
  return mean >= 1e3 && mean < 1e7 ? fmt::format("{:.0f}{}{:.0f}", mean, between, spread)
                                   : fmt::format("{:.4g}{}{:.2g}", mean, between, spread);
}

Page sweep_page(const SweepRecord& sweep) {
  CDT_REQUIRE(!sweep.rows.empty(), "expected results, but its list of rows is empty");
  Page page;
  page.title = sweep.title;
  if (!sweep.complete) {
    page.summary.emplace_back(
        "This sweep was interrupted: the page shows the runs that had finished.");
  }
  page.summary.insert(page.summary.end(), sweep.summary.begin(), sweep.summary.end());
  page.sections.push_back({"Results", {}, rows_tables(sweep), {}, "", false});
  if (!sweep.claims.empty()) {
    page.sections.push_back({"Claims", {}, {claims_table(sweep.claims)}, {}, "", false});
  }
  if (!sweep.figures.empty()) {
    page.sections.push_back({"Figures", {}, {}, sweep.figures, "", false});
  }
  for (const auto& [title, text] : sweep.preflight) {
    page.sections.push_back({"Pre-flight: " + title, {}, {}, {}, text, true});
  }
  if (!sweep.settings.empty()) {
    page.sections.push_back({"Settings", {}, {settings_table(sweep.settings)}, {}, "", false});
  }
  page.sections.push_back(machine_section(sweep));
  return page;
}

}  // namespace cdt::report
