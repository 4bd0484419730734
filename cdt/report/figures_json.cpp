// figures.json: figures as a sweep leaves them for its report and for other programs.
#include <cdt/core/format.h>
#include <cdt/core/names.h>
#include <cdt/report/page.h>

#include <limits>
#include <nlohmann/json.hpp>

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
  return {{"label", axis.label}, {"logarithmic", axis.logarithmic}};
}

std::vector<double> numbers(const ordered_json& list) {
  std::vector<double> values;
  for (const auto& value : list) {
    values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                     : value.get<double>());
  }
  return values;
}

Axis parse_axis(const ordered_json& figure, const char* name) {
  if (!figure.contains(name)) return {};
  const auto& axis = figure.at(name);
  return {axis.value("label", ""), axis.value("logarithmic", false)};
}

Series parse_series(const ordered_json& content) {
  Series series;
  series.name = content.at("name").get<std::string>();
  series.x = numbers(content.at("x"));
  series.y = numbers(content.at("y"));
  if (content.contains("low")) series.low = numbers(content.at("low"));
  if (content.contains("high")) series.high = numbers(content.at("high"));
  series.style = parse_name(kStyles, content.value("style", "line"), "the style of a series");
  series.second_axis = content.value("second_axis", false);
  return series;
}

Figure parse_figure(const ordered_json& content) {
  Figure figure;
  figure.id = content.at("id").get<std::string>();
  figure.title = content.at("title").get<std::string>();
  figure.caption = content.value("caption", "");
  figure.x = parse_axis(content, "x");
  figure.y = parse_axis(content, "y");
  figure.y2 = parse_axis(content, "y2");
  for (const auto& series : content.at("series")) figure.series.push_back(parse_series(series));
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
  return ordered_json{{"format", kFormat}, {"figures", std::move(list)}}.dump();
}

std::vector<Figure> parse_figures(const std::string& json, const std::string& source) {
  ordered_json content;
  try {
    content = ordered_json::parse(json);
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(c10::str(source, ": is not JSON: ", error.what()));
  }
  const bool named = content.is_object() && content.contains("format");
  CDT_REQUIRE(named && content["format"] == kFormat, source, ": expected the format \"", kFormat,
              "\", but came ", named ? content["format"].dump() : "a file without a format");
  std::vector<Figure> figures;
  try {
    for (const auto& figure : content.at("figures")) figures.push_back(parse_figure(figure));
  } catch (const std::exception& error) {
    throw InvalidArgument(
        c10::str(source, ": figure ", figures.size() + 1, " cannot be read: ", error.what()));
  }
  return figures;
}

}  // namespace cdt::report
