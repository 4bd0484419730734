/// From a table to tensors: encoding, missing values, scaling; fitted once, repeated on new data.
///
/// Each input column gives one feature (numbers; text as an index) or several (text as one-hot).
/// Each feature is then scaled, x ↦ (x − offset) / scale:
///
///   minmax     offset = mean, scale = max − min      range 1, mean zero
///   standard   offset = mean, scale = √(Σ(x − mean)²/r)
///   none       offset = 0, scale = 1
///
/// over the rows fitted on. A feature that is constant there has scale 0 and is 0 for every row, in
/// new data too: no weight has learned what a change of it means (but for `none`). The
/// categories are those of the whole table, whichever rows are fitted on: a category that only
/// validation rows have is known, and no target leaks through it.
#pragma once

#include <cdt/data/csv.h>
#include <torch/types.h>

namespace cdt::data {

enum class Scaling { kMinMax, kStandard, kNone };
/// What stands for a missing number: 0, or the median of the rows fitted on (0 if all are missing).
/// A missing text is a category of its own.
enum class MissingNumber { kZero, kMedian };
/// Text as the index of its category in sorted order, missing being −1, before the first (as the
/// empty text would sort); or as one feature per category, 1 where it applies, missing last and
/// only if the table had missing values.
enum class Encoding { kIndex, kOneHot };
/// A category in new data that the table did not have: refused, or taken for missing.
enum class UnknownCategory { kError, kMissing };

struct PreprocessOptions {
  std::vector<std::string> targets;  ///< columns to learn; one or more
  bool classes = false;              ///< whether the target, then a single one, is a class
  std::vector<std::string> drop;     ///< columns that are neither features nor targets
  Encoding encoding = Encoding::kIndex;
  MissingNumber missing_number = MissingNumber::kZero;
  UnknownCategory unknown_category = UnknownCategory::kError;
  Scaling scaling = Scaling::kMinMax;
  Scaling target_scaling = Scaling::kMinMax;
};

/// A fitted affine map of one feature or target.
struct Scale {
  double offset = 0;
  double scale = 1;  ///< 0: constant where it was fitted, and left out
};

/// A column of the input and the features that it gives.
struct FeatureColumn {
  std::string name;
  ColumnType type = ColumnType::kNumeric;
  double fill = 0;                      ///< numeric: stands for missing values
  std::vector<std::string> categories;  ///< text: sorted
  bool missing_seen = false;            ///< text: whether the table had missing values
  std::vector<Scale> scales;            ///< one per feature
};

/// A number with its scale, or a class: text, or a whole number.
struct TargetColumn {
  std::string name;
  Scale scale;
  std::vector<std::string> classes;  ///< sorted as text or as numbers; empty: a number
  ColumnType type = ColumnType::kNumeric;
};

/// A fitted preprocessing. Everything it does follows from its members, which are also what
/// preprocess.json holds.
struct Preprocess {
  Encoding encoding = Encoding::kIndex;
  UnknownCategory unknown_category = UnknownCategory::kError;
  /// How the table was read: of these, delimiter, header and missing_marks.
  CsvOptions csv;
  std::vector<FeatureColumn> features;
  std::vector<TargetColumn> targets;

  int64_t feature_count() const;
  /// Whether the target is a class, and its classes.
  bool has_classes() const { return targets.size() == 1 && !targets[0].classes.empty(); }
  const std::vector<std::string>& classes() const { return targets.at(0).classes; }
  /// What a network must have: one output a target, or one a class.
  int64_t output_count() const;
  /// One name per feature; one-hot ones are "column=category" and "column=" for missing.
  std::vector<std::string> feature_names() const;

  /// How to read new data: the columns used here, with their types. Columns beyond those are
  /// ignored; the targets may be absent.
  CsvOptions csv_options() const;

  /// Features [rows.size(), feature_count()], float64, of these rows of the table.
  /// @throws InvalidArgument if a column is missing or has another type, a row does not exist, or a
  ///   category is unknown (the message names column, line and value).
  torch::Tensor transform(const Table& table, const std::vector<int64_t>& rows) const;
  /// The same of all rows.
  torch::Tensor transform(const Table& table) const;

  /// Scaled targets [rows.size(), t], float64; of a class 1 in its column, else 0 [rows.size(), C].
  /// @throws InvalidArgument if a target is missing, as a column or in a row (the message names the
  ///   lines), is text and not a class, or is a class that the table fitted on did not have.
  torch::Tensor transform_targets(const Table& table, const std::vector<int64_t>& rows) const;
  torch::Tensor transform_targets(const Table& table) const;

  /// The inverse of the targets' scaling, [r, t] in float64 whatever the dtype of `targets`:
  /// predictions in the units of the file. Classes [r, C] have none and stay as they are.
  /// @throws InvalidArgument if the shape does not fit.
  torch::Tensor to_original(const torch::Tensor& targets) const;
};

/// Fits on `rows` of the table (their order does not matter).
/// @throws InvalidArgument if there are no rows, no targets or no features; a name is no column's,
///   or is both target and dropped; a target is text, is missing in some of `rows` (the message
///   names the lines) or constant there (unless its scaling is `none`); a range is not finite; a
///   text column has more than 10000 categories to encode as one-hot. With `classes`: if there are
///   several targets, a label is no whole number, or classes are too many or a single one.
Preprocess fit_preprocess(const Table& table, const std::vector<int64_t>& rows,
                          const PreprocessOptions& options, const CsvOptions& csv = {});
/// The same on all rows.
Preprocess fit_preprocess(const Table& table, const PreprocessOptions& options,
                          const CsvOptions& csv = {});

/// preprocess.json (docs/formats.md). Numbers survive to the last bit.
std::string to_json(const Preprocess& preprocess);
/// @throws InvalidArgument if the text is not what to_json writes; `file` is for the message.
Preprocess parse_preprocess(const std::string& json, const std::string& file = "preprocess.json");

/// The names used in options and files: minmax, standard, none; zero, median; index, onehot;
/// error, missing.
std::string to_string(Scaling scaling);
std::string to_string(MissingNumber missing);
std::string to_string(Encoding encoding);
std::string to_string(UnknownCategory unknown);
/// @throws InvalidArgument on another name; the message lists the names.
Scaling parse_scaling(const std::string& name);
MissingNumber parse_missing_number(const std::string& name);
Encoding parse_encoding(const std::string& name);
UnknownCategory parse_unknown_category(const std::string& name);

}  // namespace cdt::data
