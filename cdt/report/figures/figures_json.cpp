// figures.json: figures of a sweep, for its report and for other programs.
#include <cdt/core/io/json_fields.h>
#include <cdt/core/text/names.h>
#include <cdt/report/page.h>

namespace cdt::report {
namespace {

constexpr Names<Series::Style, 4> kStyles{{{"line", Series::Style::kLine},
                                           {"dashed", Series::Style::kDashed},
                                           {"points", Series::Style::kPoints},
                                           {"bars", Series::Style::kBars}}};

struct FiguresFile {
  std::vector<Figure> figures;

  void fields(Fields& f) {
    f.format("cdt-figures-1");
    f.need("figures", figures);
  }
};

}  // namespace

std::string to_string(Series::Style style) { return name_of(kStyles, style); }

void Series::fields(Fields& f) {
  f.need("name", name);
  if (f.has("style")) {
    f.spelled(
        "style", style, [](Style value) { return to_string(value); },
        [](const std::string& text) { return parse_name(kStyles, text, "the style of a series"); });
  }
  f.need("x", x);
  f.need("y", y, x.size());
  if (f.has("low", !low.empty()) || f.has("high", !high.empty())) {
    f.need("low", low, x.size());
    f.need("high", high, x.size());
  }
  f.some("second_axis", second_axis);
}

void Axis::fields(Fields& f) {
  f("label", label);
  f("logarithmic", logarithmic);
  f.some("reversed", reversed);
}

void Figure::fields(Fields& f) {
  f.need("id", id);
  f.need("title", title);
  f("caption", caption);
  f("x", x);
  f("y", y);
  f("y2", y2);
  f.need("series", series);
}

std::string to_json(const std::vector<Figure>& figures) {
  return dump_readably(to_json_value(FiguresFile{figures}), -1);
}

std::vector<Figure> parse_figures(const std::string& json, const std::string& source) {
  return from_json_value<FiguresFile>(parse_json(json, source)).figures;
}

}  // namespace cdt::report
