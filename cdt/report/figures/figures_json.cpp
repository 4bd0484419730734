// figures.json: figures as a sweep leaves them for its report and for other programs.
#include <cdt/core/io/json.h>
#include <cdt/core/text/format.h>
#include <cdt/core/text/names.h>
#include <cdt/report/page.h>

namespace cdt::report {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFormat = "cdt-figures-1";
constexpr Names<Series::Style, 4> kStyles{{{"line", Series::Style::kLine},
                                           {"dashed", Series::Style::kDashed},
                                           {"points", Series::Style::kPoints},
                                           {"bars", Series::Style::kBars}}};

ordered_json to_json(const std::vector<double>& values) {
  ordered_json list = ordered_json::array();
  for (const double value : values) list.push_back(number_or_null(value));
  return list;
}

ordered_json to_json(const Axis& axis) {
  ordered_json json{{"label", axis.label}, {"logarithmic", axis.logarithmic}};
  if (axis.reversed) json["reversed"] = true;
  return json;
}

Axis parse_axis(const JsonValue& axis) {
  return {axis["label"].text_or(""), axis["logarithmic"].flag_or(false),
          axis["reversed"].flag_or(false)};
}

Series parse_series(const JsonValue& content) {
  Series series;
  series.name = content["name"].text();
  series.x = content["x"].numbers();
  series.y = content["y"].numbers(series.x.size());
  if (content["low"].exists() || content["high"].exists()) {
    series.low = content["low"].numbers(series.x.size());
    series.high = content["high"].numbers(series.x.size());
  }
  if (const JsonValue style = content["style"]; style.exists()) {
    series.style = style.name(
        [](const std::string& name) { return parse_name(kStyles, name, "the style of a series"); });
  }
  series.second_axis = content["second_axis"].flag_or(false);
  return series;
}

Figure parse_figure(const JsonValue& content) {
  Figure figure;
  figure.id = content["id"].text();
  figure.title = content["title"].text();
  figure.caption = content["caption"].text_or("");
  figure.x = parse_axis(content["x"]);
  figure.y = parse_axis(content["y"]);
  figure.y2 = parse_axis(content["y2"]);
  for (const JsonValue& series : content["series"].list()) {
    figure.series.push_back(parse_series(series));
  }
  return figure;
}

}  // namespace

std::string to_string(Series::Style style) { return name_of(kStyles, style); }

std::string to_json(const std::vector<Figure>& figures) {
  ordered_json list = ordered_json::array();
  for (const Figure& figure : figures) {
    ordered_json all = ordered_json::array();
    for (const Series& series : figure.series) {
      ordered_json one{{"name", series.name},
                       {"style", to_string(series.style)},
                       {"x", to_json(series.x)},
                       {"y", to_json(series.y)}};
      if (!series.low.empty()) one["low"] = to_json(series.low);
      if (!series.high.empty()) one["high"] = to_json(series.high);
      if (series.second_axis) one["second_axis"] = true;
      all.push_back(std::move(one));
    }
    ordered_json one{{"id", figure.id},           {"title", figure.title},
                     {"caption", figure.caption}, {"x", to_json(figure.x)},
                     {"y", to_json(figure.y)},    {"y2", to_json(figure.y2)}};
    one["series"] = std::move(all);
    list.push_back(std::move(one));
  }
  return dump_readably({{"format", kFormat}, {"figures", std::move(list)}}, -1);
}

std::vector<Figure> parse_figures(const std::string& json, const std::string& source) {
  const JsonValue content = parse_json(json, source);
  content.require_format(kFormat);
  std::vector<Figure> figures;
  for (const JsonValue& figure : content["figures"].list()) {
    figures.push_back(parse_figure(figure));
  }
  return figures;
}

}  // namespace cdt::report
