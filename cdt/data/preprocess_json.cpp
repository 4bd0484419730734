/// preprocess.json, and the names of options in files and on the command line.
#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "cdt/core/error.h"
#include "cdt/core/json.h"
#include "cdt/data/preprocess.h"

namespace cdt::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "cdt-preprocess-1";

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

Scale parse_scale(const JsonValue& json, bool may_be_constant) {
  const Scale scale{json["offset"].number(), json["scale"].number()};
  if (scale.scale < 0 || (scale.scale == 0 && !may_be_constant)) {
    json["scale"].refuse("a positive number");
  }
  return scale;
}

ColumnType parse_column_type(const std::string& name) {
  return parse_name(kColumnTypes, name, "a column's type");
}

FeatureColumn parse_feature(const JsonValue& json, Encoding encoding) {
  FeatureColumn feature;
  feature.name = json["name"].text();
  feature.type = json["type"].name(parse_column_type);
  size_t width = 1;
  if (feature.type == ColumnType::kNumeric) {
    feature.fill = json["missing_as"].number();
  } else {
    feature.categories = json["categories"].texts();
    feature.missing_seen = json["missing_seen"].flag();
    const auto& names = feature.categories;
    CDT_REQUIRE(
        std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end(),
        json.where(), ": expected the categories of ", in_quotes(feature.name),
        " sorted and each once");
    if (encoding == Encoding::kOneHot) width = names.size() + (feature.missing_seen ? 1 : 0);
  }
  for (const JsonValue& scale : json["features"].list()) {
    feature.scales.push_back(parse_scale(scale, true));
  }
  CDT_REQUIRE(feature.scales.size() == width, json.where(), ": expected ", width,
              " features of column ", in_quotes(feature.name), ", but came ",
              feature.scales.size());
  return feature;
}

TargetColumn parse_target(const JsonValue& json) {
  TargetColumn target;
  target.name = json["name"].text();
  if (!json["classes"].exists()) {
    target.scale = parse_scale(json, false);
    return target;
  }
  target.type = json["type"].name(parse_column_type);
  target.classes = json["classes"].texts();
  const std::set<std::string> once(target.classes.begin(), target.classes.end());
  CDT_REQUIRE(once.size() >= 2 && once.size() == target.classes.size(), json.where(),
              ": expected two classes or more of ", in_quotes(target.name), ", each once");
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
  return dump_exactly({{"format", kFormat},
                       {"csv",
                        {{"delimiter", std::string(1, preprocess.csv.delimiter.value_or(','))},
                         {"header", preprocess.csv.header},
                         {"missing_marks", preprocess.csv.missing_marks}}},
                       {"encoding", to_string(preprocess.encoding)},
                       {"unknown_category", to_string(preprocess.unknown_category)},
                       {"columns", features},
                       {"targets", targets}},
                      "preprocess.json", 2);
}

Preprocess parse_preprocess(const std::string& text, const std::string& file) {
  const JsonValue json = parse_json(text, file);
  json.require_format(kFormat);
  Preprocess out;
  const JsonValue csv = json["csv"];
  const std::string delimiter = csv["delimiter"].text();
  if (delimiter.size() != 1) csv["delimiter"].refuse("a delimiter of one byte");
  out.csv.delimiter = delimiter[0];
  out.csv.header = csv["header"].flag();
  out.csv.missing_marks = csv["missing_marks"].texts();
  out.encoding = json["encoding"].name(parse_encoding);
  out.unknown_category = json["unknown_category"].name(parse_unknown_category);
  for (const JsonValue& column : json["columns"].list()) {
    out.features.push_back(parse_feature(column, out.encoding));
  }
  for (const JsonValue& target : json["targets"].list()) {
    out.targets.push_back(parse_target(target));
  }
  CDT_REQUIRE(out.has_classes() || std::all_of(out.targets.begin(), out.targets.end(),
                                               [](auto& t) { return t.classes.empty(); }),
              file, ": expected a single target to be a class, but there are ", out.targets.size());
  return out;
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
