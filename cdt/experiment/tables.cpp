#include <cdt/core/text/text.h>
#include <cdt/core/text/wrap.h>
#include <cdt/data/csv.h>
#include <cdt/experiment/tables.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace cdt::experiment {
namespace {

using report::SweepError;

/// "yes" for all runs, "no" for none, else the number.
std::string share(int64_t count, const Row& row) {
  if (predicts(row.method)) return "";  // there is no single kernel
  const auto total = static_cast<int64_t>(row.runs.size());
  return count == total ? "yes" : count == 0 ? "no" : fmt::format("{}/{}", count, total);
}

/// "2.33 ± 1.24" in units of the row; "∞" if no run converged.
std::string loss(const Row& row, double mean, double spread) {
  if (!std::isfinite(mean)) return "∞";
  return fmt::format("{:.2f} ± {:.2f}", mean / row.unit, spread / row.unit);
}

/// The same, or a cross entropy without a unit.
std::string validation_cell(const Row& row) {
  if (!row.classes || !std::isfinite(row.val_mean)) return loss(row, row.val_mean, row.val_std);
  return fmt::format("{:.3f} ± {:.3f}", row.val_mean, row.val_std);
}

/// Title of the validation column.
std::string validation_title(const Row& row) {
  if (row.classes) return "validation cross entropy";
  return fmt::format("validation loss in units of {}", row.unit == 1e-3 ? "10⁻³"
                                                       : row.unit == 0.1
                                                           ? "10⁻¹"
                                                           : fmt::format("{:g}", row.unit));
}

/// Titles of the error columns, which some rows lack.
const std::vector<SweepError>& error_columns(const std::vector<Row>& rows) {
  static const std::vector<SweepError> none;
  for (const Row& row : rows) {
    if (!row.errors.empty()) return row.errors;
  }
  return none;
}

std::string error_title(const SweepError& column) {
  return fmt::format("{} of {}", column.is_class ? "error rate" : "RMSE",
                     printable_name(column.target));
}

/// "∞" if no run converged, empty if not measured.
std::string error_cell(const Row& row, size_t column) {
  if (column < row.errors.size()) return report::show(row.errors[column]);
  return row.converged == 0 ? "∞" : "";
}

std::string published(const Row& row) {
  return row.published ? loss(row, row.published->loss.mean, row.published->loss.spread) : "";
}

std::string difference(const Row& row) {
  return std::isfinite(row.difference()) ? fmt::format("{:+.1f}", row.difference()) : "";
}

std::string converged(const Row& row) {
  return fmt::format("{}/{}", row.converged, row.runs.size());
}

/// "own" if the method chose the rate.
std::string rate_cell(const Row& row) {
  return std::isnan(row.lr) ? "–" : row.own_rate() ? "own" : fmt::format("{:.3g}", row.lr);
}

std::string verdict(const report::Claim& claim) {
  return !claim.held ? "cannot be said" : *claim.held ? "held" : "NOT held";
}

/// Escapes text for Markdown titles and cells: no markup, links or HTML.
std::string markdown(const std::string& text) {
  const std::string line = printable_name(text);
  const auto in_word = [&](size_t i) {
    return i < line.size() && std::isalnum(static_cast<unsigned char>(line[i])) != 0;
  };
  std::string escaped;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool mark = std::string_view("\\`*[]|~#$").find(c) != std::string_view::npos ||
                      (c == '_' && !(i > 0 && in_word(i - 1) && in_word(i + 1))) ||
                      (c == ':' && line.compare(i, 3, "://") == 0);
    if (mark) escaped += '\\';
    escaped += c == '<'   ? std::string("&lt;")
               : c == '>' ? std::string("&gt;")
               : c == '&' ? std::string("&amp;")
                          : std::string(1, c);
  }
  return escaped;
}

std::string pad(const std::string& text, size_t width) {
  const size_t shown = printed_width(text);
  return shown < width ? std::string(width - shown, ' ') + text : text;
}

bool any_published(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const Row& row) { return row.published.has_value(); });
}

std::string cell(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

using TextCells = std::vector<std::string>;

/// Each column as wide as its widest cell, with two blanks before all but the first.
std::vector<size_t> text_widths(const std::vector<TextCells>& lines) {
  std::vector<size_t> widths(lines.front().size(), 0);
  for (const TextCells& line : lines) {
    for (size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], printed_width(line[c]) + (c > 0 ? 2 : 0));
    }
  }
  return widths;
}

/// The columns that fit a terminal side by side. Each block begins with the rate and the method.
std::vector<std::vector<size_t>> text_blocks(const std::vector<size_t>& widths) {
  std::vector<std::vector<size_t>> blocks;
  size_t used = 0;
  for (size_t c = 2; c < widths.size(); ++c) {
    if (blocks.empty() || used + widths[c] > kColumns) {
      blocks.push_back({0, 1});
      used = widths[0] + widths[1];
    }
    blocks.back().push_back(c);
    used += widths[c];
  }
  return blocks;
}

std::string text_line(const TextCells& cells, const std::vector<size_t>& block,
                      const std::vector<size_t>& widths) {
  std::string line;
  for (const size_t c : block) line += pad(cells[c], widths[c]);
  return line + "\n";
}

}  // namespace

std::string to_csv(const std::vector<Row>& rows, bool for_spreadsheets) {
  const auto field = [&](const std::string& text) {
    return data::csv_field(text, for_spreadsheets);
  };
  std::string csv =
      "architecture,lr,method,reachable,strictly_contracting,converged,runs,val_mse_mean,"
      "val_mse_std,train_mse_mean,seconds,published_mean,published_std,difference";
  const std::vector<SweepError>& columns = error_columns(rows);
  for (const SweepError& column : columns) {
    const std::string name = (column.is_class ? "error_rate_" : "rmse_") + column.target;
    csv += "," + field(name + "_mean") + "," + field(name + "_std");
  }
  csv += "\n";
  for (const Row& row : rows) {
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{},", field(row.architecture), cell(row.lr),
                       row.method, share(row.reachable, row), share(row.strictly_contracting, row),
                       row.converged, row.runs.size(), cell(row.val_mean), cell(row.val_std),
                       cell(row.train_mean), cell(row.seconds));
    csv += row.published ? fmt::format("{},{},", cell(row.published->loss.mean),
                                       cell(row.published->loss.spread))
                         : ",,";
    csv += cell(row.difference());
    for (size_t t = 0; t < columns.size(); ++t) {
      const bool known = t < row.errors.size();
      csv += known ? fmt::format(",{},{}", cell(row.errors[t].error.mean),
                                 cell(row.errors[t].error.spread))
                   : ",,";
    }
    csv += "\n";
  }
  return csv;
}

std::string to_markdown(const std::string& title, const std::vector<Row>& rows,
                        const std::vector<report::Claim>& claims) {
  const bool beside = any_published(rows);
  const std::vector<SweepError>& columns = error_columns(rows);
  std::string text = fmt::format("# {}\n", markdown(title));
  std::string last;
  for (const Row& row : rows) {
    if (row.architecture != last) {
      last = row.architecture;
      text += fmt::format(
          "\n## Architecture {} ({})\n\nFinal {}, mean ± standard "
          "deviation over the runs that converged.\n\n",
          markdown(row.architecture), markdown(row.runs.front()->shape), validation_title(row));
      text += "| lr | method | reachable | αc_Lλ_max < 1 | converged | validation |";
      for (const SweepError& column : columns) {
        text += fmt::format(" {} |", markdown(error_title(column)));
      }
      text += beside ? " published | difference / its spread |" : "";
      text += " training |\n|---|---|---|---|---|---|---|";
      for (size_t t = 0; t < columns.size(); ++t) text += "---|";
      text += beside ? "---|---|\n" : "\n";
    }
    const std::string lr =
        std::isnan(row.lr) ? "–" : fmt::format("{:.4g}{}", row.lr, row.own_rate() ? " (own)" : "");
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} |", lr, row.method, share(row.reachable, row),
                    share(row.strictly_contracting, row), converged(row), validation_cell(row));
    for (size_t t = 0; t < columns.size(); ++t) text += fmt::format(" {} |", error_cell(row, t));
    if (beside) text += fmt::format(" {} | {} |", published(row), difference(row));
    text += std::isfinite(row.train_mean) ? fmt::format(" {:.2g} |\n", row.train_mean) : " ∞ |\n";
  }
  if (!claims.empty()) text += "\n## Claims\n\n| claim | | evidence |\n|---|---|---|\n";
  for (const report::Claim& claim : claims) {
    text += fmt::format("| {} | {} | {} |\n", markdown(claim.text), verdict(claim),
                        markdown(claim.evidence));
  }
  return text;
}

std::vector<std::string> lowest_errors(const std::vector<Row>& rows) {
  std::vector<std::string> sentences;
  for (size_t t = 0; t < error_columns(rows).size(); ++t) {
    const Row* best = nullptr;
    for (const Row& row : rows) {
      if (t < row.errors.size() && row.all_converged() &&
          (best == nullptr || row.errors[t].error.mean < best->errors[t].error.mean)) {
        best = &row;
      }
    }
    if (best == nullptr) continue;
    const std::string rate = predicts(best->method) ? ""
                             : best->own_rate()     ? " at its own rate"
                                                    : fmt::format(" at rate {:.4g}", best->lr);
    sentences.push_back(
        fmt::format("Lowest {} on the rows left out: {}, by {}{} (architecture {}).",
                    error_title(best->errors[t]), report::show(best->errors[t]), best->method, rate,
                    best->architecture));
  }
  return sentences;
}

std::string to_text(const std::string& title, const std::vector<Row>& rows,
                    const std::vector<report::Claim>& claims) {
  const bool beside = any_published(rows);
  const std::vector<SweepError>& columns = error_columns(rows);
  TextCells header{"lr", "method", "reach", "αc_Lλ<1", "runs", "ours"};
  if (beside) header.emplace_back("published");
  if (beside) header.emplace_back("diff.");
  for (const SweepError& column : columns) header.push_back(error_title(column));
  std::vector<TextCells> lines{std::move(header)};
  for (const Row& row : rows) {
    TextCells cells{rate_cell(row),
                    row.method,
                    share(row.reachable, row),
                    share(row.strictly_contracting, row),
                    converged(row),
                    validation_cell(row)};
    if (beside) cells.push_back(published(row));
    if (beside) cells.push_back(difference(row));
    for (size_t t = 0; t < columns.size(); ++t) cells.push_back(error_cell(row, t));
    lines.push_back(std::move(cells));
  }
  const std::vector<size_t> widths = text_widths(lines);
  const std::vector<std::vector<size_t>> blocks = text_blocks(widths);
  std::string text = "\n" + wrap(printable_name(title), 2) + "\n";
  for (const std::string& sentence : lowest_errors(rows)) text += wrap(sentence, 2) + "\n";
  for (size_t first = 0, end = 0; first < rows.size(); first = end) {
    const Row& row = rows[first];
    while (end < rows.size() && rows[end].architecture == row.architecture) ++end;
    text += "\n" +
            wrap(fmt::format("Architecture {} ({}), {}", row.architecture, row.runs.front()->shape,
                             validation_title(row)),
                 2) +
            "\n";
    for (size_t b = 0; b < blocks.size(); ++b) {
      text += (b > 0 ? "\n" : "") + text_line(lines.front(), blocks[b], widths);
      for (size_t i = first; i < end; ++i) {
        if (i > first && lines[i + 1][0] != lines[i][0]) text += "\n";
        text += text_line(lines[i + 1], blocks[b], widths);
      }
    }
  }
  text += "\nreach: all labels can be fitted. runs: converged, of all.\n";
  if (beside) text += "diff.: (ours − published) / published spread.\n";
  if (!claims.empty()) text += "\nThe paper's claims on these runs\n";
  for (const report::Claim& claim : claims) {
    text += wrap(fmt::format("  {:<15}{}\n                 {}\n", verdict(claim), claim.text,
                             claim.evidence),
                 17);
  }
  return text;
}

}  // namespace cdt::experiment
