/// Report pages: sections with text, tables and figures, as one self-contained HTML file.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>

#include <string>
#include <vector>

namespace cdt::report {

/// A curve or a point cloud. Non-finite values leave a gap.
struct Series {
  enum class Style { kLine, kDashed, kPoints, kBars };
  std::string name;
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low;   ///< band around the curve; empty: none
  std::vector<double> high;  ///< likewise
  Style style = Style::kLine;
  bool second_axis = false;  ///< drawn against the axis on the right

  void fields(Fields& f);
};

/// "line", "dashed", "points" or "bars".
std::string to_string(Series::Style style);

struct Axis {
  std::string label;
  bool logarithmic = false;  ///< initially; the reader can change it
  bool reversed = false;     ///< large values first

  void fields(Fields& f);
};

struct Figure {
  std::string id;  ///< letters, digits and hyphens; the name of its files
  std::string title;
  std::string caption;
  Axis x;
  Axis y;
  Axis y2;  ///< the axis on the right, if a series uses it
  std::vector<Series> series;

  void fields(Fields& f);
};

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::string note;
};

/// Parts appear in this order.
struct Section {
  std::string title;
  std::vector<std::string> paragraphs;
  std::vector<Table> tables;
  std::vector<Figure> figures;
  std::string preformatted;  ///< the text of the pre-flight report
  bool folded = false;       ///< collapsed until opened
};

struct Page {
  std::string title;
  std::vector<std::string> summary;  ///< paragraphs below the title
  std::vector<Section> sections;
};

/// Whether the library was built with Chart.js; pages require it.
bool has_charts();

/// @throws InvalidArgument if two figures share an id, a series has lists of different lengths, or
///   Chart.js is missing (the message names the package).
std::string to_html(const Page& page);

/// Figures in the format of figures.json: {"format": "cdt-figures-1", "figures": […]}; null is a
/// gap.
std::string to_json(const std::vector<Figure>& figures);
/// @throws InvalidArgument, naming `source`, if the text is not of this format.
std::vector<Figure> parse_figures(const std::string& json, const std::string& source);

}  // namespace cdt::report
