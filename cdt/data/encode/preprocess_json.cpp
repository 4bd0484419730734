/// preprocess.json, and the names of options in files and on the command line.
#include <algorithm>
#include <functional>
#include <set>

#include "cdt/core/error.h"
#include "cdt/core/io/json_fields.h"
#include "cdt/core/text/names.h"
#include "cdt/data/encode/encoding.h"

namespace cdt::data {
namespace {

constexpr int64_t kLargestSide = 1 << 16;

constexpr cdt::Names<Scaling, 3> kScalings{
    {{"minmax", Scaling::kMinMax}, {"standard", Scaling::kStandard}, {"none", Scaling::kNone}}};
constexpr cdt::Names<MissingNumber, 2> kMissingNumbers{
    {{"zero", MissingNumber::kZero}, {"median", MissingNumber::kMedian}}};
constexpr cdt::Names<Encoding, 2> kEncodings{
    {{"index", Encoding::kIndex}, {"onehot", Encoding::kOneHot}}};
constexpr cdt::Names<UnknownCategory, 2> kUnknownCategories{
    {{"error", UnknownCategory::kError}, {"missing", UnknownCategory::kMissing}}};
constexpr cdt::Names<TargetTransform, 3> kTargetTransforms{{{"auto", TargetTransform::kAuto},
                                                            {"none", TargetTransform::kNone},
                                                            {"log", TargetTransform::kLog}}};
constexpr cdt::Names<ColumnType, 2> kColumnTypes{
    {{"numeric", ColumnType::kNumeric}, {"text", ColumnType::kText}}};

/// An enumerator, written by to_string.
template <class Enum, class Parse>
void named(Fields& f, const char* name, Enum& value, Parse parse) {
  f.spelled(
      name, value, [](Enum each) { return to_string(each); }, parse);
}

ColumnType parse_column_type(const std::string& name) {
  return parse_name(kColumnTypes, name, "a column's type");
}

/// A byte as a string, empty for 0.
void byte_field(Fields& f, const char* name, char& byte) {
  std::string text(byte == 0 ? 0 : 1, byte);
  f.need(name, text);
  f.require(text.size() <= 1, name, c10::str("a ", name, " of one byte"));
  byte = text.empty() ? '\0' : text[0];
}

void require_sorted(const Fields& f, const char* name, const std::vector<std::string>& names,
                    const FeatureColumn& column) {
  const bool sorted =
      std::adjacent_find(names.begin(), names.end(), std::greater_equal<>()) == names.end();
  f.require(sorted, name,
            c10::str("the categories of ", in_quotes(column.name), " sorted and each once"));
}

void number_fields(Fields& f, FeatureColumn& column) {
  f.need("missing_as", column.fill);
  f.some("missing_indicator", column.missing_indicator);
  auto& knots = column.knots;
  if (!f.has("knots", !knots.empty())) return;
  f.need("knots", knots);
  // Null is read as NaN, which is not ascending.
  const bool ascending = std::adjacent_find(knots.begin(), knots.end(), [](double a, double b) {
                           return !(a < b);
                         }) == knots.end();
  f.require(knots.size() >= 3 && ascending, "knots", "three numbers or more that ascend");
  f.need("piece_weight", column.piece_weight);
  f.require(column.piece_weight > 0, "piece_weight", "a positive number");
}

void category_fields(Fields& f, FeatureColumn& column) {
  const auto& categories = column.categories;
  f.need("categories", column.categories);
  f.need("missing_seen", column.missing_seen);
  require_sorted(f, "categories", categories, column);
  f.require(!column.part || categories == categories_of(*column.part), "categories",
            "the categories of a part of a date");
  if (!f.has("others", !column.others.empty())) return;
  f.need("others", column.others);
  f.need("other_feature", column.other_feature);
  f.require(!column.other_feature || !column.others.empty(), "other_feature",
            "false, where no others are listed");
  require_sorted(f, "others", column.others, column);
  for (const std::string& other : column.others) {
    f.require(!std::binary_search(categories.begin(), categories.end(), other), "others",
              c10::str("categories of ", in_quotes(column.name),
                       " without a feature of their own, and ", in_quotes(other), " is both"));
  }
}

}  // namespace

void Scale::fields(Fields& f) {
  f.need("offset", offset);
  f.need("scale", scale);
  f.require(scale >= 0, "scale", "a positive number");
}

void NumberFormat::fields(Fields& f) {
  byte_field(f, "decimal", decimal);
  f.require(decimal == '.' || decimal == ',', "decimal", "a point or a comma");
  byte_field(f, "group", group);
  f.require(group == 0 || (std::string_view(",.' ").find(group) != std::string_view::npos &&
                           group != decimal),
            "group", "a comma, a point, an apostrophe or a blank, other than the decimal one");
  f.need("prefix", prefix);
  f.need("suffix", suffix);
}

/// Besides name, type and categories, only fields that are not the default.
void FeatureColumn::fields(Fields& f) {
  f.need("name", name);
  named(f, "type", type, parse_column_type);
  if (f.has("part", part.has_value())) {
    f.require(type == ColumnType::kText, "type", "text, of which dates are made");
    if (!part) part.emplace();
    named(f, "part", *part, parse_date_part);
  }
  if (f.has("dates", dates != DateOrder::kYearFirst)) named(f, "dates", dates, parse_date_order);
  f.some("reads", format);
  f.require(!format || type == ColumnType::kNumeric, "reads", "none of text");
  f.some("complete", complete);
  if (is_number()) {
    number_fields(f, *this);
  } else {
    category_fields(f, *this);
  }
  f.need("features", scales);
}

void PictureFeatures::fields(Fields& f) {
  f.each("shape", shape, [&](int64_t& size) { f.whole(size, 1, kLargestSide); });
  f.require(shape.size() == 3, "shape", "channels, height and width");
  f.each("channels", scales, [&](Scale& scale) {
    f.here(scale);
    f.require(scale.scale > 0, "scale", "a positive number");
  });
  f.require(scales.size() == static_cast<size_t>(shape[0]), "channels",
            c10::str("the scales of ", shape[0], " channels"));
  f.some("flat", flat);
}

void TargetColumn::fields(Fields& f) {
  f.need("name", name);
  if (f.has("classes", !classes.empty())) {
    named(f, "type", type, parse_column_type);
    f.need("classes", classes);
    const std::set<std::string> once(classes.begin(), classes.end());
    f.require(once.size() >= 2 && once.size() == classes.size(), "classes",
              c10::str("two classes or more of ", in_quotes(name), ", each once"));
    f.some("squares", squares);
    return;
  }
  scale.fields(f);
  f.require(scale.scale > 0, "scale", "a positive number");
  f.some("reads", format);
  if (!f.has("transform", log)) return;
  TargetTransform transform = TargetTransform::kLog;
  named(f, "transform", transform, parse_target_transform);
  f.require(transform != TargetTransform::kAuto, "transform", "none or log");
  log = transform == TargetTransform::kLog;
}

void Preprocess::fields(Fields& f) {
  f.format("cdt-preprocess-1");
  f.object("csv", [&] {
    char delimiter = csv.delimiter.value_or(',');
    byte_field(f, "delimiter", delimiter);
    f.require(delimiter != 0, "delimiter", "a delimiter of one byte");
    if (f.reads()) csv.delimiter = delimiter;
    f.need("header", csv.header);
    f.need("missing_marks", csv.missing_marks);
  });
  named(f, "encoding", encoding, parse_encoding);
  named(f, "unknown_category", unknown_category, parse_unknown_category);
  if (f.has("clip", clip > 0)) {
    f.need("clip", clip);
    f.require(clip > 0, "clip", "a positive number");
  }
  f.some("pictures", pictures);
  f.each("columns", features, [&](FeatureColumn& column) {
    f.here(column);
    const size_t width = width_of(column, encoding);
    f.require(column.scales.size() == width, "features",
              c10::str(width, " features of column ", in_quotes(column.name)));
  });
  f.need("targets", targets);
  f.some("notes", notes);
  f.require(!pictures || features.empty(), "columns", "none beside pictures");
  f.require(!pictures || has_classes(), "targets", "the classes of pictures");
  f.require(has_classes() || std::all_of(targets.begin(), targets.end(),
                                         [](const auto& each) { return each.classes.empty(); }),
            "targets", "a single target to be a class");
}

std::string to_json(const Preprocess& preprocess) {
  return dump_exactly(to_json_value(preprocess), "preprocess.json", 2);
}

Preprocess parse_preprocess(const std::string& text, const std::string& file) {
  return from_json_value<Preprocess>(parse_json(text, file));
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
