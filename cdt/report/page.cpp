#include <cdt/core/error.h>
#include <cdt/core/text/text.h>
#include <cdt/core/version.h>
#include <cdt/report/assets/assets.h>
#include <cdt/report/assets/pack.h>
#include <cdt/report/page.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

namespace cdt::report {
namespace {

using nlohmann::ordered_json;

/// Escapes text for HTML, also inside double quotes, with hidden characters spelled out. Leaves
/// bytes that are not UTF-8 to the browser.
std::string escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : without_hidden(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

/// Digits of numbers in a page; long pages have fewer, so that they stay small.
struct Digits {
  int value = 6;
  int band = 6;
};

constexpr size_t kLongPage = 100'000;  // numbers

void require_sound(const Figure& figure) {
  const auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '-'; };
  CDT_REQUIRE(!figure.id.empty() && std::all_of(figure.id.begin(), figure.id.end(), allowed),
              "the id of a figure must be letters, digits and hyphens, got '", figure.id, "'");
  for (const Series& series : figure.series) {
    const size_t size = series.x.size();
    const bool banded = !series.low.empty() || !series.high.empty();
    CDT_REQUIRE(series.y.size() == size, "figure ", figure.id, ", series '", series.name, "': has ",
                size, " x and ", series.y.size(), " y");
    CDT_REQUIRE(!banded || (series.low.size() == size && series.high.size() == size), "figure ",
                figure.id, ", series '", series.name, "': a band needs ", size,
                " values on each side, got ", series.low.size(), " and ", series.high.size());
  }
}

/// A figure in the format of assets/data.js; x values shared by several series are stored once.
ordered_json pack_figure(const Figure& figure, const Digits& digits) {
  const auto axis = [](const Axis& axis) {
    ordered_json packed{{"label", without_hidden(axis.label)}, {"log", axis.logarithmic}};
    if (axis.reversed) packed["reversed"] = true;
    return packed;
  };
  ordered_json packed{{"id", figure.id},
                      {"title", without_hidden(figure.title)},
                      {"x", axis(figure.x)},
                      {"y", axis(figure.y)},
                      {"y2", axis(figure.y2)},
                      {"lists", ordered_json::array()},
                      {"series", ordered_json::array()}};
  std::vector<const std::vector<double>*> lists;
  for (const Series& series : figure.series) {
    const auto same = [&](const std::vector<double>* list) { return *list == series.x; };
    auto found = std::find_if(lists.begin(), lists.end(), same);
    const auto place = found - lists.begin();
    if (found == lists.end()) {
      lists.push_back(&series.x);
      packed["lists"].push_back(pack(series.x, 6));
    }
    ordered_json one{{"name", without_hidden(series.name)},
                     {"style", to_string(series.style)},
                     {"x", place},
                     {"y", pack(series.y, digits.value)}};
    if (!series.low.empty()) one["low"] = pack(series.low, digits.band);
    if (!series.high.empty()) one["high"] = pack(series.high, digits.band);
    if (series.second_axis) one["right"] = true;
    packed["series"].push_back(std::move(one));
  }
  return packed;
}

/// Description of a chart for screen readers, before the table.
std::string describe(const Figure& figure) {
  std::string names;
  for (const Series& series : figure.series) names += (names.empty() ? "" : ", ") + series.name;
  return fmt::format("Chart: {}. {} against {}: {}. Its numbers are in the table below.",
                     figure.title, figure.y.label.empty() ? "y" : figure.y.label,
                     figure.x.label.empty() ? "x" : figure.x.label, names);
}

std::string figure_html(const Figure& figure) {
  std::string html = fmt::format(
      "<figure id=\"figure-{0}\">\n<div class=\"head\"><h3>{1}</h3><div "
      "class=\"tools\"></div></div>\n"
      "<div class=\"plot\"><canvas role=\"img\" aria-label=\"{2}\"></canvas></div>\n"
      "<ul class=\"legend\" aria-label=\"Series\"></ul>\n",
      figure.id, escape(figure.title), escape(describe(figure)));
  html += fmt::format("<figcaption>{}</figcaption>\n", escape(figure.caption));
  return html +
         "<details class=\"data\"><summary>Data of this figure as a table</summary>"
         "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
         "aria-label=\"Data\"></div></details>\n"
         "</figure>\n";
}

/// Whether a column of numbers should be right-aligned: "3", "−1.5e-7", "2.3 ± 1.1", "9 of 10", or
/// a missing number. "79-250-1" is a name.
bool is_number(std::string_view cell) {
  for (const std::string_view word : {"±", "of", "−", "–", "∞", "\u00a0", "diverged"}) {
    if (cell == word) return true;
  }
  char last = ' ';
  bool digits = cell.empty();
  for (size_t i = 0; i < cell.size(); ++i) {
    const char c = cell[i];
    const auto skip = [&](std::string_view word) {
      if (!cell.substr(i).starts_with(word)) return false;
      i += word.size() - 1;
      return true;
    };
    if (std::isdigit(static_cast<unsigned char>(c))) {
      digits = true;
    } else if (c == '-' || c == '+') {
      if (last != ' ' && last != 'e') return false;
    } else if (c == 'e') {
      if (!std::isdigit(static_cast<unsigned char>(last))) return false;
    } else if (c != '.' && c != ' ' && c != '%') {
      const bool known = skip("±") || skip("of") || skip("−") || skip("\u00a0");
      if (!known) return false;
    }
    last = c == 'e' || std::isdigit(static_cast<unsigned char>(c)) ? c : ' ';
  }
  return digits;
}

std::string table_html(const Table& table) {
  std::vector<bool> numeric(table.columns.size());
  for (size_t c = 0; c < numeric.size(); ++c) {
    numeric[c] = !table.rows.empty() &&
                 std::all_of(table.rows.begin(), table.rows.end(),
                             [&](const auto& row) { return c < row.size() && is_number(row[c]); });
  }
  std::string html = "<div class=\"table\"><div class=\"scroll\"><table>\n";
  if (!table.title.empty()) html += fmt::format("<caption>{}</caption>\n", escape(table.title));
  const bool headed = std::any_of(table.columns.begin(), table.columns.end(),
                                  [](const std::string& name) { return !name.empty(); });
  html += headed ? "<thead><tr>" : "";
  for (size_t c = 0; headed && c < numeric.size(); ++c) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", numeric[c] ? " class=\"n\"" : "",
                        escape(table.columns[c]));
  }
  html += headed ? "</tr></thead>\n<tbody>\n" : "<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) {
      const char* mark = row[c] == "held"                   ? " class=\"good\""
                         : row[c] == "not held"             ? " class=\"bad\""
                         : c < numeric.size() && numeric[c] ? " class=\"n\""
                                                            : "";
      // Short words are not wrapped: "gd-matched" must not break at its hyphen.
      if (*mark == '\0' && row[c].size() < 16) mark = " class=\"w\"";
      html += fmt::format("<td{}>{}</td>", mark, escape(row[c]));
    }
    html += "</tr>\n";
  }
  html += "</tbody></table></div>\n";
  if (!table.note.empty()) html += fmt::format("<p class=\"note\">{}</p>\n", escape(table.note));
  return html + "</div>\n";
}

std::string section_html(const Section& section, size_t number) {
  std::string html =
      section.folded
          ? fmt::format("<details class=\"section\" id=\"section-{}\"><summary>{}</summary>\n",
                        number, escape(section.title))
          : fmt::format("<section id=\"section-{}\">\n<h2>{}</h2>\n", number,
                        escape(section.title));
  for (const auto& text : section.paragraphs) html += fmt::format("<p>{}</p>\n", escape(text));
  if (section.tables.size() > 1) html += "<div class=\"tables\">\n";  // side by side, if they fit
  for (const auto& table : section.tables) html += table_html(table);
  if (section.tables.size() > 1) html += "</div>\n";
  for (const auto& figure : section.figures) html += figure_html(figure);
  if (!section.preformatted.empty()) {
    html += fmt::format("<pre tabindex=\"0\">{}</pre>\n", escape(section.preformatted));
  }
  return html + (section.folded ? "</details>\n" : "</section>\n");
}

/// A nonce that text from data cannot predict: only scripts that carry it may run. Derived from the
/// content, so that the same results give the same bytes.
std::string nonce_of(std::string_view content) {
  std::string nonce;
  for (uint64_t seed : {0xcbf29ce484222325ULL, 0x84222325cbf29ce4ULL}) {
    for (const unsigned char c : content) seed = (seed ^ c) * 0x100000001b3ULL;
    nonce += fmt::format("{:016x}", seed);
  }
  return nonce;
}

}  // namespace

bool has_charts() { return !assets::kChartJs.empty(); }

std::string to_html(const Page& page) {
  CDT_REQUIRE(
      has_charts(),
      "there are no report pages: this program was built without Chart.js; install Debian's "
      "libjs-chart.js (or Chart.js 3 from elsewhere) and build it again");
  std::set<std::string> ids;
  size_t numbers = 0;
  for (const Section& section : page.sections) {
    for (const Figure& figure : section.figures) {
      require_sound(figure);
      CDT_REQUIRE(ids.insert(figure.id).second, "two figures share the id '", figure.id, "'");
      for (const Series& each : figure.series) {
        numbers += each.y.size() + each.low.size() + each.high.size();
      }
    }
  }
  const Digits digits = numbers > kLongPage ? Digits{5, 4} : Digits{};

  std::string body = fmt::format(
      "<header>\n<button id=\"theme\" type=\"button\" hidden>Dark</button>\n<h1>{}</h1>\n",
      escape(page.title));
  for (const auto& text : page.summary) body += fmt::format("<p>{}</p>\n", escape(text));
  if (page.sections.size() > 3) {
    body += "<nav aria-label=\"Sections\">";
    for (size_t i = 0; i < page.sections.size(); ++i) {
      body += fmt::format("<a href=\"#section-{}\">{}</a> ", i + 1, escape(page.sections[i].title));
    }
    body += "</nav>\n";
  }
  body += "</header>\n<main>\n";
  ordered_json figures = ordered_json::array();
  for (size_t i = 0; i < page.sections.size(); ++i) {
    body += section_html(page.sections[i], i + 1);
    for (const auto& figure : page.sections[i].figures) {
      figures.push_back(pack_figure(figure, digits));
    }
  }
  body += "</main>\n";
  body += fmt::format(
      "<noscript><p>The figures and their tables need JavaScript, which is part of this file; "
      "nothing "
      "is loaded from elsewhere.</p></noscript>\n<footer><p>Written by cdt {} ({:.12}). Figures: "
      "drag "
      "to zoom, double-click to reset. Their numbers have {} digits; the files beside this page "
      "have "
      "all. Drawn by Chart.js, MIT License.</p></footer>\n",
      kVersion, kRevision, digits.value);

  // Replaces bytes that are not UTF-8; "<" could end the script or open a comment in it.
  std::string data;
  for (const char c : figures.dump(-1, ' ', false, ordered_json::error_handler_t::replace)) {
    if (c == '<') {
      data += "\\u003c";
    } else {
      data += c;
    }
  }

  const std::string nonce = nonce_of(body + data);
  const std::string script = fmt::format("<script nonce=\"{}\">", nonce);
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'nonce-{0}'; style-src 'nonce-{0}'; img-src data: blob:; base-uri 'none'; form-action "
      "'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{1}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style nonce=\"{0}\">\n",
      nonce, escape(page.title));
  html.reserve(html.size() + body.size() + data.size() + assets::kChartJs.size() +
               assets::kCss.size() + assets::kScript.size() + 1000);
  html.append(assets::kCss).append("</style>\n").append(script);
  html +=
      "document.documentElement.dataset.theme = "
      "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';</script>\n"
      "</head>\n<body>\n";
  html += body;
  html += fmt::format("<script nonce=\"{}\" type=\"application/json\" id=\"figures\">", nonce);
  html.append(data).append("</script>\n");
  html.append(script).append(assets::kChartJs).append("</script>\n");
  html.append(script).append(assets::kScript).append("</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace cdt::report
