/// preprocess.json, and the names of options in files and on the command line.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cdt/core/error.h"
#include "cdt/data/preprocess.h"

namespace cdt::data {
namespace {

using Json = nlohmann::ordered_json;

template <typename Enum, size_t count>
using Names = std::array<std::pair<Enum, const char*>, count>;

constexpr Names<Scaling, 3> kScalings{
    {{Scaling::kMinMax, "minmax"}, {Scaling::kStandard, "standard"}, {Scaling::kNone, "none"}}};
constexpr Names<MissingNumber, 2> kMissingNumbers{
    {{MissingNumber::kZero, "zero"}, {MissingNumber::kMedian, "median"}}};
constexpr Names<Encoding, 2> kEncodings{
    {{Encoding::kIndex, "index"}, {Encoding::kOneHot, "onehot"}}};
constexpr Names<UnknownCategory, 2> kUnknownCategories{
    {{UnknownCategory::kError, "error"}, {UnknownCategory::kMissing, "missing"}}};
constexpr Names<ColumnType, 2> kColumnTypes{
    {{ColumnType::kNumeric, "numeric"}, {ColumnType::kText, "text"}}};

template <typename Enum, size_t count>
std::string name_of(const Names<Enum, count>& names, Enum value) {
  for (const auto& [other, name] : names) {
    if (other == value) return name;
  }
  throw InvalidArgument("expected a value of the enumeration");
}

template <typename Enum, size_t count>
Enum parse_name(const Names<Enum, count>& names, const std::string& text, const char* what) {
  std::string known;
  for (const auto& [value, name] : names) {
    if (text == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw InvalidArgument(
      c10::str("expected ", what, " to be one of ", known, ", but came ", in_quotes(text)));
}

Json scale_json(const Scale& scale) { return {{"offset", scale.offset}, {"scale", scale.scale}}; }

Scale parse_scale(const Json& json, bool may_be_constant) {
  const Scale scale{json.at("offset"), json.at("scale")};
  CDT_REQUIRE(std::isfinite(scale.offset) && std::isfinite(scale.scale) &&
                  (scale.scale > 0 || (may_be_constant && scale.scale == 0)),
              "expected a finite offset and a positive scale, but came ", scale.offset, " and ",
              scale.scale);
  return scale;
}

FeatureColumn parse_feature(const Json& json, Encoding encoding) {
  FeatureColumn feature;
  feature.name = json.at("name");
  feature.type = parse_name(kColumnTypes, json.at("type"), "a column's type");
  size_t width = 1;
  if (feature.type == ColumnType::kNumeric) {
    feature.fill = json.at("missing_as");
  } else {
    feature.categories = json.at("categories").get<std::vector<std::string>>();
    feature.missing_seen = json.at("missing_seen");
    const auto& names = feature.categories;
    CDT_REQUIRE(
        std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end(),
        "expected the categories of ", in_quotes(feature.name), " sorted and each once");
    if (encoding == Encoding::kOneHot) width = names.size() + (feature.missing_seen ? 1 : 0);
  }
  for (const Json& scale : json.at("features")) feature.scales.push_back(parse_scale(scale, true));
  CDT_REQUIRE(feature.scales.size() == width, "expected ", width, " features of column ",
              in_quotes(feature.name), ", but came ", feature.scales.size());
  return feature;
}

TargetColumn parse_target(const Json& json) {
  TargetColumn target;
  target.name = json.at("name");
  if (!json.contains("classes")) {
    target.scale = parse_scale(json, false);
    return target;
  }
  target.type = parse_name(kColumnTypes, json.at("type"), "a target's type");
  target.classes = json.at("classes").get<std::vector<std::string>>();
  const std::set<std::string> once(target.classes.begin(), target.classes.end());
  CDT_REQUIRE(once.size() >= 2 && once.size() == target.classes.size(),
              "expected two classes or more of ", in_quotes(target.name), ", each once");
  return target;
}

}  // namespace

std::string to_json(const Preprocess& preprocess) {
  Json features = Json::array();
  for (const FeatureColumn& feature : preprocess.features) {
    Json entry{{"name", feature.name}, {"type", to_string(feature.type)}};
    if (feature.type == ColumnType::kNumeric) {
      entry["missing_as"] = feature.fill;
    } else {
      entry["categories"] = feature.categories;
      entry["missing_seen"] = feature.missing_seen;
    }
    entry["features"] = Json::array();
    for (const Scale& scale : feature.scales) entry["features"].push_back(scale_json(scale));
    features.push_back(std::move(entry));
  }
  Json targets = Json::array();
  for (const TargetColumn& target : preprocess.targets) {
    Json entry{{"name", target.name}};
    if (target.classes.empty()) {
      entry.update(scale_json(target.scale));
    } else {
      entry["type"] = to_string(target.type);
      entry["classes"] = target.classes;
    }
    targets.push_back(std::move(entry));
  }
  return Json{{"format", "cdt-preprocess-1"},
              {"csv",
               {{"delimiter", std::string(1, preprocess.csv.delimiter)},
                {"header", preprocess.csv.header},
                {"missing_marks", preprocess.csv.missing_marks}}},
              {"encoding", to_string(preprocess.encoding)},
              {"unknown_category", to_string(preprocess.unknown_category)},
              {"columns", features},
              {"targets", targets}}
      .dump(2);
}

Preprocess parse_preprocess(const std::string& text, const std::string& file) {
  try {
    const Json json = Json::parse(text);
    const std::string format = json.at("format");
    CDT_REQUIRE(format == "cdt-preprocess-1", "expected the format cdt-preprocess-1, but came ",
                in_quotes(format));
    Preprocess out;
    const Json& csv = json.at("csv");
    const std::string delimiter = csv.at("delimiter");
    CDT_REQUIRE(delimiter.size() == 1, "expected a delimiter of one byte, but came ",
                in_quotes(delimiter));
    out.csv.delimiter = delimiter[0];
    out.csv.header = csv.at("header");
    out.csv.missing_marks = csv.at("missing_marks").get<std::vector<std::string>>();
    out.encoding = parse_encoding(json.at("encoding"));
    out.unknown_category = parse_unknown_category(json.at("unknown_category"));
    for (const Json& column : json.at("columns"))
      out.features.push_back(parse_feature(column, out.encoding));
    for (const Json& target : json.at("targets")) out.targets.push_back(parse_target(target));
    CDT_REQUIRE(out.has_classes() || std::all_of(out.targets.begin(), out.targets.end(),
                                                 [](auto& t) { return t.classes.empty(); }),
                "expected a single target to be a class, but there are ", out.targets.size());
    return out;
  } catch (const nlohmann::json::exception& error) {
    throw InvalidArgument(c10::str(file, ": expected a preprocessing record, but ", error.what()));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(c10::str(file, ": ", error.what()));
  }
}

std::string to_string(Scaling scaling) { return name_of(kScalings, scaling); }
std::string to_string(MissingNumber missing) { return name_of(kMissingNumbers, missing); }
std::string to_string(Encoding encoding) { return name_of(kEncodings, encoding); }
std::string to_string(UnknownCategory unknown) { return name_of(kUnknownCategories, unknown); }
Scaling parse_scaling(const std::string& name) { return parse_name(kScalings, name, "a scaling"); }
MissingNumber parse_missing_number(const std::string& name) {
  return parse_name(kMissingNumbers, name, "the treatment of missing numbers");
}
Encoding parse_encoding(const std::string& name) {
  return parse_name(kEncodings, name, "an encoding");
}
UnknownCategory parse_unknown_category(const std::string& name) {
  return parse_name(kUnknownCategories, name, "the treatment of unknown categories");
}

}  // namespace cdt::data
