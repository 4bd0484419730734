/// Converts a table to tensors: encoding, missing values, scaling; fitted once, applied to new
/// data.
///
/// Each input column gives one feature (numbers; text as an index) or several (one-hot text;
/// numbers also as pieces between quantiles and missing indicators; parts of dates). Each feature
/// is then scaled, x ↦ (x − offset) / scale:
///
///   minmax     offset = mean, scale = max − min      range 1, mean zero
///   standard   offset = mean, scale = √(Σ(x − mean)²/r)
///   none       offset = 0, scale = 1
///
/// over the rows fitted on. A feature that is constant there has scale 0 and is 0 for every row,
/// also in new data, since no weight has learned the effect of a change (except with `none`).
/// Categories are those of the whole table, whichever rows are fitted on: a category that only
/// validation rows have is known, and no target leaks through it. (If rare categories are merged,
/// they are counted in the rows fitted on: a category that these lack is unknown, as in new data.)
///
/// With a clip c, values beyond c/2 bend towards c (smooth_clip), so that every finite number gives
/// a finite feature. Pieces: between knots b₀ < … < b_m, quantiles at equal probabilities, feature
/// k is the part of the piece below x, (x − b_k)/(b_{k+1} − b_k) within [0, 1]. After scaling it is
/// multiplied by a weight, since m pieces together represent one number.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/data/csv.h>
#include <cdt/data/dates.h>
#include <torch/types.h>

namespace cdt::data {

enum class Scaling { kMinMax, kStandard, kNone };
/// Value for a missing number: 0, or the median of the rows fitted on (0 if all are missing). A
/// missing text is a category of its own.
enum class MissingNumber { kZero, kMedian };
/// kIndex: the index of the category in sorted order; missing is −1, before the first, as the empty
/// text would sort. kOneHot: a 0/1 feature per category; missing comes last, if the table had
/// missing values.
enum class Encoding { kIndex, kOneHot };
/// Handling of a category in new data that the table did not have: an error, or treated as rare, as
/// missing if rare categories have no feature.
enum class UnknownCategory { kError, kMissing };
/// What is learned of a target: itself, its logarithm, or the choice of wants_log.
enum class TargetTransform { kAuto, kNone, kLog };

struct PreprocessOptions {
  std::vector<std::string> targets;  ///< columns to learn; one or more
  bool classes = false;              ///< whether the single target is a class
  std::vector<std::string> drop;     ///< columns that are neither features nor targets
  Encoding encoding = Encoding::kIndex;
  MissingNumber missing_number = MissingNumber::kZero;
  UnknownCategory unknown_category = UnknownCategory::kError;
  Scaling scaling = Scaling::kMinMax;
  Scaling target_scaling = Scaling::kMinMax;
  TargetTransform target_transform = TargetTransform::kNone;
  /// Number of knots of a number's pieces; 0: no pieces. Columns with two values or two distinct
  /// quantiles have none, since their number contains all information.
  int64_t quantiles = 0;
  /// Scales the categories or pieces of a column together like one feature: all by the root of the
  /// sum of their squared scales, so that rare ones stay small. A missing indicator counts half.
  bool grouped = false;
  /// Factor of the scaled pieces; 0: 1/√(number of pieces), so that they count as one feature, or 1
  /// if `grouped`.
  double quantile_weight = 0;
  double clip = 0;  ///< bound of scaled features; 0: none
  /// Adds a 0/1 feature for missing values to numeric columns with missing values in the rows
  /// fitted on.
  bool missing_indicator = false;
  /// One-hot: at most this many categories, the most frequent, have their own features, and none
  /// with fewer rows than `rare_rows`; the others share one feature. 0: no limit.
  int64_t max_levels = 0;
  int64_t rare_rows = 0;
  bool dates = false;  ///< replaces text columns of dates by their parts, unless typed as text
  /// Leaves out identifiers (cdt/data/encode/identifiers.h) and constant columns, except those in
  /// `keep`.
  bool select = false;
  std::vector<std::string> keep;
  bool constant_target = false;  ///< accept a constant target, with scale 1
};

/// A fitted affine map of one feature or target.
struct Scale {
  double offset = 0;
  double scale = 1;  ///< 0: constant in the rows fitted on, and left out

  void fields(Fields& f);
};

/// An input column, or a part of its dates, and its features. A number: its value, missing
/// indicator, pieces. A category by index: one feature. One-hot: one per category, then rare ones,
/// then missing.
struct FeatureColumn {
  std::string name;
  ColumnType type = ColumnType::kNumeric;  ///< in the file
  std::optional<DatePart> part;            ///< text: the column holds dates, and this is the part
                                           ///< used
  double fill = 0;                         ///< number: replaces missing values
  bool missing_indicator = false;          ///< number: whether it has that feature
  std::vector<double> knots;               ///< number: ascending; m + 1 for m pieces, or none
  double piece_weight = 1;                 ///< number: multiplies the scaled pieces
  std::vector<std::string> categories;     ///< category: sorted
  std::vector<std::string> others;         ///< category: rare ones, sorted
  bool other_feature = false;              ///< category: whether rare ones have a feature
  bool missing_seen = false;               ///< category: whether the table had missing values
  /// Whether each row fitted on had a value: then nothing was learned of missing ones.
  bool complete = false;
  std::optional<NumberFormat> format;       ///< format of texts read as numbers
  DateOrder dates = DateOrder::kYearFirst;  ///< order of the column's dates
  std::vector<Scale> scales;                ///< one per feature

  /// Whether it is a number, in the file or as a part of a date; otherwise a category.
  bool is_number() const;
  void fields(Fields& f);
};

/// Pictures as features: pixels in [0, 1], scaled per channel like columns.
struct PictureFeatures {
  std::vector<int64_t> shape;  ///< channels, height, width
  std::vector<Scale> scales;   ///< one per channel
  bool flat = false;           ///< flattened to one row of numbers, for dense networks

  void fields(Fields& f);
};

/// A number with its scale, or a class: text or an integer.
struct TargetColumn {
  std::string name;
  Scale scale;
  std::vector<std::string> classes;  ///< sorted as text or as numbers; empty: a number
  ColumnType type = ColumnType::kNumeric;
  bool log = false;  ///< whether the logarithm of the number is learned
  /// Whether a class is fitted to 1 and 0 by squares, so that outputs are probabilities; otherwise
  /// they are logits.
  bool squares = false;
  std::optional<NumberFormat> format;  ///< format of texts read as numbers

  void fields(Fields& f);
};

/// Unknown values of a column of new data: texts that are none of its categories, or not dates; or
/// missing values in a column that had none.
struct UnknownTexts {
  std::string column;
  int64_t rows = 0;
  std::string first;  ///< in the order of the file
  int64_t line = 0;   ///< line of that row
  /// Replacement: "rare", as for categories of few rows, or "missing"; for missing values the
  /// number used, or "no category".
  std::string taken_for;
  bool missing = false;  ///< missing values, not unknown texts
};

/// A fitted preprocessing. Its members determine all that it does, and preprocess.json holds them.
struct Preprocess {
  Encoding encoding = Encoding::kIndex;
  UnknownCategory unknown_category = UnknownCategory::kError;
  /// How the table was read; delimiter, header and missing_marks are used.
  CsvOptions csv;
  double clip = 0;  ///< bound of scaled features; 0: none
  std::vector<FeatureColumn> features;
  std::optional<PictureFeatures> pictures;  ///< instead of columns
  std::vector<TargetColumn> targets;
  /// Choices made when it was fitted, in words, one per column: "id: left out, …".
  std::vector<std::string> notes;

  void fields(Fields& f);

  int64_t feature_count() const;
  /// Shape of one sample: {79}, or {3, 96, 96}.
  std::vector<int64_t> feature_shape() const;
  /// Whether the target is a class, and its classes.
  bool has_classes() const { return targets.size() == 1 && !targets[0].classes.empty(); }
  const std::vector<std::string>& classes() const { return targets.at(0).classes; }
  /// Number of network outputs: one per target, or one per class.
  int64_t output_count() const;
  /// One name per feature. One-hot: "column=category", "column=(others)", and "column=" for missing
  /// values, also of numbers; pieces: "column[b_k, b_{k+1}]"; dates begin with "column.part".
  std::vector<std::string> feature_names() const;

  /// Options to read new data: the columns used here, with their types. Other columns are ignored;
  /// targets may be absent.
  CsvOptions csv_options() const;

  /// Features [rows.size(), feature_count()], float64, of these rows of the table; for pictures
  /// [rows.size(), channels, height, width] (or flat), float32.
  /// @throws InvalidArgument if a column is missing or has another type, a row does not exist, or a
  ///   category is unknown (the message names column, line and value); if there are no pictures,
  ///   their shape differs, or one cannot be read.
  torch::Tensor transform(const Table& table, const std::vector<int64_t>& rows) const;
  /// The same for all rows.
  torch::Tensor transform(const Table& table) const;

  /// Unknown texts that `transform` treats as missing or rare, by column.
  std::vector<UnknownTexts> unknown_texts(const Table& table) const;
  /// These, and columns that have missing values but had none when fitted.
  std::vector<UnknownTexts> unknown_values(const Table& table) const;
  /// For each row, whether some column's value affects no feature: a missing value in a column that
  /// had none, or an unknown text that is not treated as rare.
  std::vector<bool> unfamiliar(const Table& table, const std::vector<int64_t>& rows) const;

  /// Scaled targets [rows.size(), t], float64; for a class one-hot [rows.size(), C].
  /// @throws InvalidArgument if a target is missing, as a column or in a row (the message names the
  ///   lines), is text and not a class, is a class that the fitted table did not have, or is not
  ///   above zero while its logarithm is learned.
  torch::Tensor transform_targets(const Table& table, const std::vector<int64_t>& rows) const;
  torch::Tensor transform_targets(const Table& table) const;
  /// Targets in the units of the file, without logarithm or scale. Classes as in transform_targets.
  torch::Tensor targets_in_units(const Table& table, const std::vector<int64_t>& rows) const;

  /// Inverse of the targets' scaling and logarithm, [r, t] in float64 for any dtype of `targets`:
  /// predictions in the units of the file. Classes [r, C] are not changed.
  /// @throws InvalidArgument if the shape does not fit.
  torch::Tensor to_original(const torch::Tensor& targets) const;
};

/// Describes an entry of unknown_values, without the file.
std::string to_text(const UnknownTexts& unknown);
/// @throws InvalidArgument, naming column, line and value, if there are any: `--unknown refuse`.
void refuse_unknown(const std::vector<UnknownTexts>& unknown, const std::string& source);

/// Fits on `rows` of the table, in any order. Weights, if given, one per row, apply to means,
/// deviations, medians and quantiles; a row of weight 0 is ignored.
/// @throws InvalidArgument if there are no rows, no targets or no features; a name is not a column,
///   or is both target and dropped; a target is text, is missing in some of `rows` (the message
///   names the lines) or constant there (unless its scaling is `none`); a range is not finite; a
///   text column has more than 10000 categories to encode as one-hot; an option is out of its
///   range; the number of weights differs from that of rows, or one is negative or not finite. With
///   `classes`: if there are several targets, a label is not an integer, or there is one class or
///   too many. With a logarithm: if a target is not above zero.
Preprocess fit_preprocess(const Table& table, const std::vector<int64_t>& rows,
                          const PreprocessOptions& options, const CsvOptions& csv = {},
                          const std::vector<double>& weights = {});
/// The same for all rows.
Preprocess fit_preprocess(const Table& table, const PreprocessOptions& options,
                          const CsvOptions& csv = {});

/// Fits pictures, scaled by the pixels of `rows`, and the class column `target`, fitted by squares
/// or as logits.
/// @throws InvalidArgument as fit_classes does, or if a picture cannot be read.
Preprocess fit_pictures(const Table& table, const std::vector<int64_t>& rows,
                        const std::string& target, bool squares, Scaling scaling, bool flat);

/// x for |x| ≤ c/2, beyond that ±(c/2)(1 + tanh((|x| − c/2)/(c/2))): twice differentiable, odd,
/// increasing, and bounded by c.
double smooth_clip(double x, double c);

/// Whether to learn a target's logarithm: all values are above zero, their skewness is above 1, and
/// the absolute skewness of their logarithms is smaller.
bool wants_log(const std::vector<double>& values, const std::vector<double>& weights);

/// preprocess.json (docs/formats.md). Numbers are preserved to the last bit.
std::string to_json(const Preprocess& preprocess);
/// @throws InvalidArgument if the text is not what to_json writes; `file` is its name in messages.
Preprocess parse_preprocess(const std::string& json, const std::string& file = "preprocess.json");

/// The names used in options and files: minmax, standard, none; zero, median; index, onehot;
/// error, missing; auto, none, log.
std::string to_string(Scaling scaling);
std::string to_string(MissingNumber missing);
std::string to_string(Encoding encoding);
std::string to_string(UnknownCategory unknown);
std::string to_string(TargetTransform transform);
/// @throws InvalidArgument on an unknown name; the message lists the names.
Scaling parse_scaling(const std::string& name);
MissingNumber parse_missing_number(const std::string& name);
Encoding parse_encoding(const std::string& name);
UnknownCategory parse_unknown_category(const std::string& name);
TargetTransform parse_target_transform(const std::string& name);

}  // namespace cdt::data
