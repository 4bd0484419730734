/// preprocess.json, and the names of options in files and on the command line.
#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "cdt/core/error.h"
#include "cdt/core/io/json.h"
#include "cdt/data/encode/encoding.h"

namespace cdt::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "cdt-preprocess-1";
constexpr int64_t kLargestSide = 1 << 16;

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
constexpr Names<TargetTransform, 3> kTargetTransforms{{{TargetTransform::kAuto, "auto"},
                                                       {TargetTransform::kNone, "none"},
                                                       {TargetTransform::kLog, "log"}}};
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

void require_sorted(const JsonValue& json, const std::vector<std::string>& names,
                    const FeatureColumn& feature) {
  CDT_REQUIRE(std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end(),
              json.where(), ": expected the categories of ", in_quotes(feature.name),
              " sorted and each once");
}

void parse_number_column(const JsonValue& json, FeatureColumn& feature) {
  feature.fill = json["missing_as"].number();
  feature.missing_indicator = json["missing_indicator"].flag_or(false);
  if (!json["knots"].exists()) return;
  feature.knots = json["knots"].numbers();
  const auto& knots = feature.knots;
  // Null stands for NaN, which does not ascend.
  const bool ascending = std::adjacent_find(knots.begin(), knots.end(), [](double a, double b) {
                           return !(a < b);
                         }) == knots.end();
  if (knots.size() < 3 || !ascending) json["knots"].refuse("three numbers or more that ascend");
  feature.piece_weight = json["piece_weight"].number();
  if (feature.piece_weight <= 0) json["piece_weight"].refuse("a positive number");
}

void parse_category_column(const JsonValue& json, FeatureColumn& feature) {
  feature.categories = json["categories"].texts();
  feature.missing_seen = json["missing_seen"].flag();
  require_sorted(json, feature.categories, feature);
  if (feature.part && feature.categories != categories_of(*feature.part)) {
    json["categories"].refuse("the categories of a part of a date");
  }
  if (!json["others"].exists()) return;
  feature.others = json["others"].texts();
  feature.other_feature = json["other_feature"].flag();
  if (feature.other_feature && feature.others.empty()) {
    json["other_feature"].refuse("false, where no others are listed");
  }
  require_sorted(json, feature.others, feature);
  for (const std::string& other : feature.others) {
    CDT_REQUIRE(!std::binary_search(feature.categories.begin(), feature.categories.end(), other),
                json.where(), ": expected the categories of ", in_quotes(feature.name),
                " either by themselves or among others, but ", in_quotes(other), " is both");
  }
}

Json format_json(const NumberFormat& format) {
  return {{"decimal", std::string(1, format.decimal)},
          {"group", format.group == 0 ? std::string() : std::string(1, format.group)},
          {"prefix", format.prefix},
          {"suffix", format.suffix}};
}

std::optional<NumberFormat> parse_format(const JsonValue& json) {
  if (!json.exists()) return std::nullopt;
  NumberFormat format;
  const std::string decimal = json["decimal"].text(), group = json["group"].text();
  if (decimal != "." && decimal != ",") json["decimal"].refuse("a point or a comma");
  format.decimal = decimal[0];
  if (!group.empty()) {
    if (group.size() != 1 || std::string_view(",.' ").find(group[0]) == std::string_view::npos ||
        group == decimal) {
      json["group"].refuse(
          "a comma, a point, an apostrophe or a blank, other than the decimal one");
    }
    format.group = group[0];
  }
  format.prefix = json["prefix"].text();
  format.suffix = json["suffix"].text();
  return format;
}

FeatureColumn parse_feature(const JsonValue& json, Encoding encoding) {
  FeatureColumn feature;
  feature.name = json["name"].text();
  feature.type = json["type"].name(parse_column_type);
  if (json["part"].exists()) {
    if (feature.type != ColumnType::kText) json["type"].refuse("text, of which dates are made");
    feature.part = json["part"].name(parse_date_part);
  }
  if (feature.is_number()) {
    parse_number_column(json, feature);
  } else {
    parse_category_column(json, feature);
  }
  feature.complete = json["complete"].flag_or(false);
  feature.format = parse_format(json["reads"]);
  if (feature.format && feature.type != ColumnType::kNumeric) json["reads"].refuse("none of text");
  if (json["dates"].exists()) feature.dates = json["dates"].name(parse_date_order);
  const size_t width = width_of(feature, encoding);
  for (const JsonValue& scale : json["features"].list()) {
    feature.scales.push_back(parse_scale(scale, true));
  }
  CDT_REQUIRE(feature.scales.size() == width, json.where(), ": expected ", width,
              " features of column ", in_quotes(feature.name), ", but came ",
              feature.scales.size());
  return feature;
}

/// Fields beyond name, type and categories only where they say something.
Json feature_json(const FeatureColumn& feature) {
  Json entry{{"name", feature.name}, {"type", to_string(feature.type)}};
  if (feature.part) entry["part"] = to_string(*feature.part);
  if (feature.dates != DateOrder::kYearFirst) entry["dates"] = to_string(feature.dates);
  if (feature.format) entry["reads"] = format_json(*feature.format);
  if (feature.complete) entry["complete"] = true;
  if (feature.is_number()) {
    entry["missing_as"] = feature.fill;
    if (feature.missing_indicator) entry["missing_indicator"] = true;
    if (!feature.knots.empty()) {
      entry["knots"] = feature.knots;
      entry["piece_weight"] = feature.piece_weight;
    }
  } else {
    entry["categories"] = feature.categories;
    entry["missing_seen"] = feature.missing_seen;
    if (!feature.others.empty()) {
      entry["others"] = feature.others;
      entry["other_feature"] = feature.other_feature;
    }
  }
  entry["features"] = Json::array();
  for (const Scale& scale : feature.scales) entry["features"].push_back(scale_json(scale));
  return entry;
}

Json pictures_json(const PictureFeatures& pictures) {
  Json json{{"shape", pictures.shape}, {"channels", Json::array()}};
  for (const Scale& scale : pictures.scales) json["channels"].push_back(scale_json(scale));
  if (pictures.flat) json["flat"] = true;
  return json;
}

PictureFeatures parse_pictures(const JsonValue& json) {
  PictureFeatures pictures;
  for (const JsonValue& size : json["shape"].list()) {
    pictures.shape.push_back(size.whole(1, kLargestSide));
  }
  if (pictures.shape.size() != 3) json["shape"].refuse("channels, height and width");
  for (const JsonValue& scale : json["channels"].list()) {
    pictures.scales.push_back(parse_scale(scale, false));
  }
  if (pictures.scales.size() != static_cast<size_t>(pictures.shape[0])) {
    json["channels"].refuse(c10::str("the scales of ", pictures.shape[0], " channels"));
  }
  pictures.flat = json["flat"].flag_or(false);
  return pictures;
}

TargetColumn parse_target(const JsonValue& json) {
  TargetColumn target;
  target.name = json["name"].text();
  if (!json["classes"].exists()) {
    target.scale = parse_scale(json, false);
    target.format = parse_format(json["reads"]);
    if (json["transform"].exists()) {
      const auto transform = json["transform"].name(parse_target_transform);
      if (transform == TargetTransform::kAuto) json["transform"].refuse("none or log");
      target.log = transform == TargetTransform::kLog;
    }
    return target;
  }
  target.type = json["type"].name(parse_column_type);
  target.classes = json["classes"].texts();
  const std::set<std::string> once(target.classes.begin(), target.classes.end());
  CDT_REQUIRE(once.size() >= 2 && once.size() == target.classes.size(), json.where(),
              ": expected two classes or more of ", in_quotes(target.name), ", each once");
  target.squares = json["squares"].flag_or(false);
  return target;
}

}  // namespace

std::string to_json(const Preprocess& preprocess) {
  Json features = Json::array();
  for (const FeatureColumn& feature : preprocess.features) {
    features.push_back(feature_json(feature));
  }
  Json targets = Json::array();
  for (const TargetColumn& target : preprocess.targets) {
    Json entry{{"name", target.name}};
    if (target.classes.empty()) {
      entry.update(scale_json(target.scale));
      if (target.format) entry["reads"] = format_json(*target.format);
      if (target.log) entry["transform"] = to_string(TargetTransform::kLog);
    } else {
      entry["type"] = to_string(target.type);
      entry["classes"] = target.classes;
      if (target.squares) entry["squares"] = true;
    }
    targets.push_back(std::move(entry));
  }
  Json json{{"format", kFormat},
            {"csv",
             {{"delimiter", std::string(1, preprocess.csv.delimiter.value_or(','))},
              {"header", preprocess.csv.header},
              {"missing_marks", preprocess.csv.missing_marks}}},
            {"encoding", to_string(preprocess.encoding)},
            {"unknown_category", to_string(preprocess.unknown_category)}};
  if (preprocess.clip > 0) json["clip"] = preprocess.clip;
  if (preprocess.pictures) json["pictures"] = pictures_json(*preprocess.pictures);
  json["columns"] = std::move(features);
  json["targets"] = std::move(targets);
  if (!preprocess.notes.empty()) json["notes"] = preprocess.notes;
  return dump_exactly(json, "preprocess.json", 2);
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
  if (json["clip"].exists()) {
    out.clip = json["clip"].number();
    if (out.clip <= 0) json["clip"].refuse("a positive number");
  }
  if (json["notes"].exists()) out.notes = json["notes"].texts();
  for (const JsonValue& column : json["columns"].list()) {
    out.features.push_back(parse_feature(column, out.encoding));
  }
  for (const JsonValue& target : json["targets"].list()) {
    out.targets.push_back(parse_target(target));
  }
  if (json["pictures"].exists()) {
    out.pictures = parse_pictures(json["pictures"]);
    if (!out.features.empty()) json["columns"].refuse("none beside pictures");
    if (!out.has_classes()) json["targets"].refuse("the classes of pictures");
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
std::string to_string(TargetTransform transform) { return name_of(kTargetTransforms, transform); }
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
TargetTransform parse_target_transform(const std::string& name) {
  return parse_name(kTargetTransforms, name, "the transform of targets");
}

}  // namespace cdt::data
