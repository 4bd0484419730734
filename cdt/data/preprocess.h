/// From a table to tensors: encoding, missing values, scaling; fitted once, repeated on new data.
///
/// Each input column gives one feature (numbers; text as an index) or several (text as one-hot; of
/// numbers also pieces between quantiles, and whether they were missing; of dates their parts).
/// Each feature is then scaled, x ↦ (x − offset) / scale:
///
///   minmax     offset = mean, scale = max − min      range 1, mean zero
///   standard   offset = mean, scale = √(Σ(x − mean)²/r)
///   none       offset = 0, scale = 1
///
/// over the rows fitted on. A feature that is constant there has scale 0 and is 0 for every row, in
/// new data too: no weight has learned what a change of it means (but for `none`). The
/// categories are those of the whole table, whichever rows are fitted on: a category that only
/// validation rows have is known, and no target leaks through it. (Where rare ones go together they
/// are counted, in the rows fitted on: what these lack is unknown, as it would be in new data.)
///
/// With a clip c, what is beyond c/2 bends towards c (smooth_clip), so that every finite number is
/// a finite feature. Pieces: between knots b₀ < … < b_m, quantiles at equal probabilities, feature
/// k is how much of the piece lies below x, (x − b_k)/(b_{k+1} − b_k) within [0, 1], and after
/// scaling it is multiplied by a weight, since m pieces together say what one number says.
#pragma once

#include <cdt/core/error.h>
#include <cdt/core/fields.h>
#include <cdt/data/csv.h>
#include <cdt/data/dates.h>
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
/// A category in new data that the table did not have: refused, or taken for one of the rare ones,
/// for missing if these have no feature.
enum class UnknownCategory { kError, kMissing };
/// What is learned of a target: itself, its logarithm, or what wants_log says.
enum class TargetTransform { kAuto, kNone, kLog };

struct PreprocessOptions {
  std::vector<std::string> targets;  ///< columns to learn; one or more
  bool classes = false;              ///< whether the target, then a single one, is a class
  std::vector<std::string> drop;     ///< columns that are neither features nor targets
  Encoding encoding = Encoding::kIndex;
  MissingNumber missing_number = MissingNumber::kZero;
  UnknownCategory unknown_category = UnknownCategory::kError;
  Scaling scaling = Scaling::kMinMax;
  Scaling target_scaling = Scaling::kMinMax;
  TargetTransform target_transform = TargetTransform::kNone;
  /// Knots of a number's pieces; 0: none. Columns of two values, and those whose quantiles are two
  /// alone, have no pieces: their number says it all.
  int64_t quantiles = 0;
  /// What a column gives together, its categories or its pieces, is scaled as one feature: all by
  /// the root of the sum of their squared scales, so that rare ones stay small. An indicator of
  /// missing numbers counts half.
  bool grouped = false;
  /// Multiplies the scaled pieces; 0: as one feature, so 1/√(their number) unless `grouped`.
  double quantile_weight = 0;
  double clip = 0;  ///< bound of scaled features; 0: none
  /// A feature that is 1 where a number is missing, for columns that miss some in the rows fitted
  /// on.
  bool missing_indicator = false;
  /// One-hot: this number of the most frequent categories have their own features, and those of
  /// fewer rows than `rare_rows` have not; what is left has one feature together. 0: no limit.
  int64_t max_levels = 0;
  int64_t rare_rows = 0;
  bool dates = false;  ///< text that is dates throughout becomes its parts, unless typed as text
  /// Leaves out identifiers (cdt/data/encode/identifiers.h) and columns that are constant, but for
  /// `keep`.
  bool select = false;
  std::vector<std::string> keep;
  bool constant_target = false;  ///< a target that does not vary is no error, and has scale 1
};

/// A fitted affine map of one feature or target.
struct Scale {
  double offset = 0;
  double scale = 1;  ///< 0: constant where it was fitted, and left out

  void fields(Fields& f);
};

/// A column of the input, or a part of its dates, and the features that it gives. A number: itself,
/// whether it is missing, its pieces. A category by index: one. One-hot: one each, then that of the
/// rare ones, then that of missing ones.
struct FeatureColumn {
  std::string name;
  ColumnType type = ColumnType::kNumeric;  ///< of the column in the file
  std::optional<DatePart> part;            ///< text: the column holds dates, and this is of them
  double fill = 0;                         ///< number: stands for missing values
  bool missing_indicator = false;          ///< number: whether there is that feature
  std::vector<double> knots;               ///< number: ascending; m + 1 for m pieces, or none
  double piece_weight = 1;                 ///< number: multiplies the scaled pieces
  std::vector<std::string> categories;     ///< category: sorted
  std::vector<std::string> others;         ///< category: rare ones, sorted
  bool other_feature = false;              ///< category: whether those have a feature
  bool missing_seen = false;               ///< category: whether some were missing
  /// Whether a value stood in each row fitted on: then a missing one is what nothing was learned
  /// of.
  bool complete = false;
  std::optional<NumberFormat> format;       ///< of texts that were read as numbers
  DateOrder dates = DateOrder::kYearFirst;  ///< of the column's dates
  std::vector<Scale> scales;                ///< one per feature

  /// Whether it is a number, in the file or as a part of a date; otherwise it is a category.
  bool is_number() const;
  void fields(Fields& f);
};

/// Pictures as features: pixels in [0, 1], scaled channel by channel as columns are.
struct PictureFeatures {
  std::vector<int64_t> shape;  ///< channels, height, width
  std::vector<Scale> scales;   ///< one a channel
  bool flat = false;           ///< a row of numbers each, for networks of dense layers

  void fields(Fields& f);
};

/// A number with its scale, or a class: text, or a whole number.
struct TargetColumn {
  std::string name;
  Scale scale;
  std::vector<std::string> classes;  ///< sorted as text or as numbers; empty: a number
  ColumnType type = ColumnType::kNumeric;
  bool log = false;  ///< a number whose logarithm is learned, scaled
  /// A class whose outputs are fitted to 1 and 0 by squares, and so are probabilities as they come;
  /// otherwise they are logits.
  bool squares = false;
  std::optional<NumberFormat> format;  ///< of texts that were read as numbers

  void fields(Fields& f);
};

/// What stands in a column of new data, and nothing was learned of: texts that are no category of
/// it, or no dates; or nothing, where each row had a value.
struct UnknownTexts {
  std::string column;
  int64_t rows = 0;
  std::string first;      ///< of them, in the order of the file
  int64_t line = 0;       ///< where that stands
  std::string taken_for;  ///< what stands for them: "rare", as categories of few rows, or
                          ///< "missing"; of missing ones the number that does, or "no category"
  bool missing = false;   ///< values that are missing, and no texts
};

/// A fitted preprocessing. Everything it does follows from its members, which are also what
/// preprocess.json holds.
struct Preprocess {
  Encoding encoding = Encoding::kIndex;
  UnknownCategory unknown_category = UnknownCategory::kError;
  /// How the table was read: of these, delimiter, header and missing_marks.
  CsvOptions csv;
  double clip = 0;  ///< bound of scaled features; 0: none
  std::vector<FeatureColumn> features;
  std::optional<PictureFeatures> pictures;  ///< instead of columns
  std::vector<TargetColumn> targets;
  /// What was chosen when it was fitted, in words, a column each: "id: left out, …".
  std::vector<std::string> notes;

  void fields(Fields& f);

  int64_t feature_count() const;
  /// Of one sample: {79}, or {3, 96, 96}.
  std::vector<int64_t> feature_shape() const;
  /// Whether the target is a class, and its classes.
  bool has_classes() const { return targets.size() == 1 && !targets[0].classes.empty(); }
  const std::vector<std::string>& classes() const { return targets.at(0).classes; }
  /// What a network must have: one output a target, or one a class.
  int64_t output_count() const;
  /// One name per feature; one-hot ones are "column=category", "column=(others)" and "column=" for
  /// missing, as of numbers; pieces "column[b_k, b_{k+1}]"; those of dates begin with
  /// "column.part".
  std::vector<std::string> feature_names() const;

  /// How to read new data: the columns used here, with their types. Columns beyond those are
  /// ignored; the targets may be absent.
  CsvOptions csv_options() const;

  /// Features [rows.size(), feature_count()], float64, of these rows of the table; of pictures
  /// [rows.size(), channels, height, width] (or flat), float32.
  /// @throws InvalidArgument if a column is missing or has another type, a row does not exist, or a
  ///   category is unknown (the message names column, line and value); if there are no pictures, or
  ///   of another shape, or one cannot be read.
  torch::Tensor transform(const Table& table, const std::vector<int64_t>& rows) const;
  /// The same of all rows.
  torch::Tensor transform(const Table& table) const;

  /// What `transform` takes for missing because it does not know it, by column.
  std::vector<UnknownTexts> unknown_texts(const Table& table) const;
  /// Those, and columns in which values are missing that never were.
  std::vector<UnknownTexts> unknown_values(const Table& table) const;
  /// Of each row whether no feature of one of its columns says what stands there: a missing value
  /// in a column that had one in each row, an unknown text that is not taken for a rare one.
  std::vector<bool> unfamiliar(const Table& table, const std::vector<int64_t>& rows) const;

  /// Scaled targets [rows.size(), t], float64; of a class 1 in its column, else 0 [rows.size(), C].
  /// @throws InvalidArgument if a target is missing, as a column or in a row (the message names the
  ///   lines), is text and not a class, is a class that the table fitted on did not have, or is not
  ///   above zero while its logarithm is learned.
  torch::Tensor transform_targets(const Table& table, const std::vector<int64_t>& rows) const;
  torch::Tensor transform_targets(const Table& table) const;
  /// The same in the units of the file, as they stand there: no logarithm, no scale. Of classes as
  /// transform_targets.
  torch::Tensor targets_in_units(const Table& table, const std::vector<int64_t>& rows) const;

  /// The inverse of the targets' scaling and logarithm, [r, t] in float64 whatever the dtype of
  /// `targets`: predictions in the units of the file. Classes [r, C] stay as they are.
  /// @throws InvalidArgument if the shape does not fit.
  torch::Tensor to_original(const torch::Tensor& targets) const;
};

/// One of unknown_values in words, without the file.
std::string to_text(const UnknownTexts& unknown);
/// @throws InvalidArgument, naming column, line and value, if there are any: `--unknown refuse`.
void refuse_unknown(const std::vector<UnknownTexts>& unknown, const std::string& source);

/// Fits on `rows` of the table (their order does not matter). Weights, if there are, one a row, are
/// those of means, deviations, medians and quantiles; a row of weight 0 is as no row.
/// @throws InvalidArgument if there are no rows, no targets or no features; a name is no column's,
///   or is both target and dropped; a target is text, is missing in some of `rows` (the message
///   names the lines) or constant there (unless its scaling is `none`); a range is not finite; a
///   text column has more than 10000 categories to encode as one-hot; an option is out of its
///   range; weights are not as many as rows, negative or not finite. With `classes`: if there are
///   several targets, a label is no whole number, or classes are too many or a single one. With a
///   logarithm: if a target is not above zero.
Preprocess fit_preprocess(const Table& table, const std::vector<int64_t>& rows,
                          const PreprocessOptions& options, const CsvOptions& csv = {},
                          const std::vector<double>& weights = {});
/// The same on all rows.
Preprocess fit_preprocess(const Table& table, const PreprocessOptions& options,
                          const CsvOptions& csv = {});

/// Pictures of the table scaled by the pixels of `rows`, and its column `target`, a class, fitted
/// by squares or as logits.
/// @throws InvalidArgument as fit_classes does, or if a picture cannot be read.
Preprocess fit_pictures(const Table& table, const std::vector<int64_t>& rows,
                        const std::string& target, bool squares, Scaling scaling, bool flat);

/// x within c/2 of zero, beyond that ±(c/2)(1 + tanh((|x| − c/2)/(c/2))): twice differentiable,
/// odd, rising, and never beyond c.
double smooth_clip(double x, double c);

/// Whether the logarithm of a target is better to learn: all values are above zero, they are skewed
/// to the right by more than 1, and their logarithms less than they are, to either side.
bool wants_log(const std::vector<double>& values, const std::vector<double>& weights);

/// preprocess.json (docs/formats.md). Numbers survive to the last bit.
std::string to_json(const Preprocess& preprocess);
/// @throws InvalidArgument if the text is not what to_json writes; `file` is for the message.
Preprocess parse_preprocess(const std::string& json, const std::string& file = "preprocess.json");

/// The names used in options and files: minmax, standard, none; zero, median; index, onehot;
/// error, missing; auto, none, log.
std::string to_string(Scaling scaling);
std::string to_string(MissingNumber missing);
std::string to_string(Encoding encoding);
std::string to_string(UnknownCategory unknown);
std::string to_string(TargetTransform transform);
/// @throws InvalidArgument on another name; the message lists the names.
Scaling parse_scaling(const std::string& name);
MissingNumber parse_missing_number(const std::string& name);
Encoding parse_encoding(const std::string& name);
UnknownCategory parse_unknown_category(const std::string& name);
TargetTransform parse_target_transform(const std::string& name);

}  // namespace cdt::data
