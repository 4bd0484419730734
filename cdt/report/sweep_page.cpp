#include <cdt/report/sweep_page.h>
#include <cdt/report/text.h>

#include <algorithm>
#include <array>

namespace cdt::report {
namespace {

using nlohmann::ordered_json;

/// −3 as ⁻³.
std::string raised(int exponent) {
  constexpr std::array kDigits{"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = exponent < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(exponent))) {
    text += kDigits[static_cast<size_t>(digit - '0')];
  }
  return text;
}

/// The power of ten in which a table states its errors, so that their digits can be compared: that
/// of the middle one, in steps of three.
int common_exponent(const ordered_json& rows) {
  std::vector<double> values;
  for (const ordered_json& row : rows) {
    const double value = number_of(row, "val_mse_mean");
    if (value > 0) values.push_back(value);
  }
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return 3 * static_cast<int>(std::floor(std::log10(*middle) / 3));
}

/// "2.33 ± 1.24" in that unit, its blanks not to be broken; what diverged has no number.
std::string mean_and_spread(const ordered_json& row, double unit) {
  const double value = number_of(row, "val_mse_mean") / unit;
  const double width = number_of(row, "val_mse_std") / unit;
  if (std::isnan(value)) return "diverged";
  if (std::isnan(width)) return show(value);
  return value < 1e4 ? fmt::format("{:.2f}\u00a0±\u00a0{:.2f}", value, width)
                     : fmt::format("{:.2e}\u00a0±\u00a0{:.2e}", value, width);
}

/// "yes" and "no" for all runs, "9 of 10" where they differ and the results say how many.
std::string yes_or_share(const ordered_json& row, const std::string& name) {
  const double count = number_of(row, (name + "_runs").c_str());
  return count > 0 && count < number_of(row, "runs")
             ? fmt::format("{:.0f}\u00a0of\u00a0{}", count, show(row, "runs"))
             : show(row, name.c_str());
}

std::string brief(double value) { return std::isnan(value) ? "–" : fmt::format("{:.3g}", value); }

/// A table per architecture, in the order in which they first appear.
std::vector<Table> rows_tables(const ordered_json& rows) {
  const auto any = [&](const char* name) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const ordered_json& row) { return !field(row, name).is_null(); });
  };
  const bool published = any("published");
  const bool trained = any("train_mse_mean");
  const int exponent = common_exponent(rows);
  const double unit = std::pow(10, exponent);
  const std::string in_units = exponent == 0 ? "" : fmt::format(",\u00a010{}", raised(exponent));
  std::vector<std::string> columns{"Learning rate", "Method", "Reachable", "Contracting",
                                   "Converged"};
  columns.push_back("Validation MSE" + in_units);
  if (published) columns.insert(columns.end(), {"Published", "Difference"});
  if (trained) columns.push_back("Training MSE" + in_units);
  columns.emplace_back("Seconds");

  std::vector<Table> tables;
  for (const ordered_json& row : rows) {
    CDT_REQUIRE(row.is_object(), "rows: expected a list of objects, but came ", row.dump());
    const std::string name = show(row, "architecture");
    const std::string shape = text_of(row, "shape");
    const std::string title =
        "Architecture " + name + (shape.empty() ? "" : fmt::format(" ({})", shape));
    auto table = std::find_if(tables.begin(), tables.end(),
                              [&](const Table& each) { return each.title == title; });
    if (table == tables.end()) table = tables.insert(table, {title, columns, {}, ""});
    std::vector<std::string> cells{show(row, "lr"),
                                   show(row, "method"),
                                   yes_or_share(row, "reachable"),
                                   yes_or_share(row, "strictly_contracting"),
                                   show(row, "converged") + "\u00a0of\u00a0" + show(row, "runs"),
                                   mean_and_spread(row, unit)};
    if (published) {
      const ordered_json theirs = field(row, "published");
      const double gap = number_of(row, "difference");
      cells.push_back(theirs.is_null() ? "" : mean_and_spread(theirs, unit));
      cells.push_back(std::isnan(gap) ? "" : fmt::format("{:+.1f}", gap));
    }
    if (trained) cells.push_back(brief(number_of(row, "train_mse_mean") / unit));
    cells.push_back(brief(number_of(row, "seconds")));
    table->rows.push_back(std::move(cells));
  }
  tables.back().note =
      "Mean ± standard deviation over the runs that converged. Contracting: every mode of the "
      "local "
      "model shrinks without changing its sign (α c_L λ_max < 1).";
  if (published) {
    tables.back().note += " Difference: ours less the published one, in units of its spread.";
  }
  return tables;
}

Table claims_table(const ordered_json& claims) {
  Table table{"", {"Claim", "Here", "Evidence"}, {}, ""};
  for (const ordered_json& claim : claims) {
    const ordered_json held = field(claim, "held");
    table.rows.push_back(
        {show(claim, "claim"),
         held.is_boolean() ? (held.get<bool>() ? "held" : "not held") : "cannot be said",
         text_of(claim, "evidence")});
  }
  return table;
}

Table settings_table(const ordered_json& settings) {
  Table table{"", {"Setting", "Value", "Source", "Why"}, {}, ""};
  for (const ordered_json& setting : settings) {
    table.rows.push_back({show(setting, "name"), show(setting, "value"), show(setting, "source"),
                          text_of(setting, "note")});
  }
  return table;
}

ordered_json list_of(const ordered_json& results, const char* name) {
  const ordered_json list = field(results, name);
  CDT_REQUIRE(list.is_null() || list.is_array(), name, ": expected a list, but came ",
              list.dump().substr(0, 60));
  return list.is_null() ? ordered_json::array() : list;
}

}  // namespace

Page sweep_page(const ordered_json& results, const std::vector<Figure>& figures,
                const std::string& source) {
  require_format(results, "cdt-results-1", source);
  Page page;
  try {
    const ordered_json rows = list_of(results, "rows");
    CDT_REQUIRE(!rows.empty(), "expected results, but its list of rows is empty");
    page.title = text_of(results, "title", "Sweep");
    if (field(results, "complete") == false) {
      page.summary.emplace_back(
          "This sweep was interrupted: what follows is of the runs that were done by then.");
    }
    for (const ordered_json& text : list_of(results, "summary")) {
      page.summary.push_back(text.get<std::string>());
    }
    page.sections.push_back({"Results", {}, rows_tables(rows), {}, "", false});
    if (const auto claims = list_of(results, "claims"); !claims.empty()) {
      page.sections.push_back({"Claims", {}, {claims_table(claims)}, {}, "", false});
    }
    if (!figures.empty()) page.sections.push_back({"Figures", {}, {}, figures, "", false});
    for (const ordered_json& text : list_of(results, "preflight")) {
      page.sections.push_back(
          {"Pre-flight: " + text_of(text, "title"), {}, {}, {}, text_of(text, "text"), true});
    }
    if (const auto settings = list_of(results, "settings"); !settings.empty()) {
      page.sections.push_back({"Settings", {}, {settings_table(settings)}, {}, "", false});
    }
    Section machine{"Data, machine and timings", {}, {}, {}, "", false};
    for (const auto& [name, title] :
         {std::pair{"data", "Data"}, {"machine", "Machine"}, {"timings", "Timings"}}) {
      Table table = name_value_table(field(results, name), title);
      if (!table.rows.empty()) machine.tables.push_back(std::move(table));
    }
    machine.tables.push_back(
        {"Program",
         {"", ""},
         {{"version", show(results, "version")}, {"revision", show(results, "revision")}},
         ""});
    page.sections.push_back(std::move(machine));
  } catch (const std::exception& error) {
    throw InvalidArgument(c10::str(source, ": ", error.what()));
  }
  return page;
}

}  // namespace cdt::report
