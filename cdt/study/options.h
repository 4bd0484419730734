/// Options of data and network from which a study starts.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/preprocess.h>
#include <cdt/data/read.h>
#include <cdt/loss/loss.h>
#include <cdt/nn/architectures.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::study {

/// Purpose of a model: fit the training rows, or predict new rows. Determines defaults of the
/// encoding.
enum class Goal { kFit, kPredict };
/// "fit" or "predict".
/// @throws InvalidArgument on another name.
Goal parse_goal(std::string_view name);
std::string to_string(Goal goal);

/// Rows on which scales are fitted: training rows; training and validation rows (all but the test
/// rows); or the whole table.
enum class Fit { kTrain, kSeen, kAll };
/// "train", "seen" or "all".
/// @throws InvalidArgument on another name.
Fit parse_fit(std::string_view name);
std::string to_string(Fit fit);

/// Rows without a target are dropped, or an error.
enum class MissingTarget { kDrop, kError };
/// "drop" or "error".
/// @throws InvalidArgument on another name.
MissingTarget parse_missing_target(std::string_view name);
std::string to_string(MissingTarget missing);

/// A file and how its rows become samples. The goal chooses optional values that are not set: see
/// `preprocess_options` and the functions after it. Without `targets` all labels of arrays are
/// targets.
struct DataOptions : data::Source {
  /// Whether the file holds pictures (holds_pictures). Then `csv` and the column options below do
  /// not apply; the target is the class, and without `classes` its 1 and 0 are fitted as numbers.
  bool is_pictures = false;
  std::vector<std::string> targets;  ///< columns to learn
  /// Purpose. By default, run::train and `cdt train` predict for tables and fit for pictures; other
  /// callers fit.
  std::optional<Goal> goal;
  bool classes = false;  ///< whether the single target is a class
  /// As in loss::Traits.
  bool keeps_units = false;
  double least_target = -std::numeric_limits<double>::infinity();
  std::optional<MissingTarget> missing_target;  ///< default error; predict: drop
  int64_t rows = 0;                             ///< number to draw without replacement; 0: all
  /// Share of the drawn rows that train, by default 0.7; the others validate. With predict the
  /// share to learn from, by default all; the others are test rows.
  std::optional<double> train_fraction;
  int64_t train_rows = 0;    ///< number that replaces the share; 0: use the share
  double test_fraction = 0;  ///< share of the rows held out until the end; drawn first
  /// Rows equal in every feature stay on one side, whatever their targets. (The paper's experiments
  /// draw rows independently.)
  bool equal_rows_together = true;
  std::string group;  ///< a column: rows with equal values stay on one side
  std::string time;   ///< a column, numbers or dates: the latest rows validate and test
  std::optional<data::Encoding> encoding;                 ///< default index; predict: onehot
  std::optional<data::MissingNumber> missing_number;      ///< default zero; predict: median
  std::optional<data::UnknownCategory> unknown_category;  ///< default error; predict: missing
  std::optional<data::Scaling> scaling;                   ///< default minmax; predict and pictures:
                                                          ///< standard
  std::optional<data::Scaling> target_scaling;            ///< likewise; none for classes
  std::optional<data::TargetTransform> target_transform;  ///< default none; predict: auto
  std::optional<int64_t> quantiles;   ///< knots of a number's pieces; default 0; predict:
                                      ///< kUsualQuantiles
  double quantile_weight = 0;         ///< weight of the pieces; 0: 1/√(their number)
  std::optional<double> clip;         ///< bound of scaled features; default 0; predict: kUsualClip
  std::optional<int64_t> max_levels;  ///< one-hot categories; default all; predict: kUsualLevels
  std::vector<std::string> keep;      ///< predict: keep these features even if they look like
                                      ///< identifiers
  std::optional<Fit> fit;             ///< default train; predict: seen. For pictures, all are those
                                      ///< drawn
  /// A column of positive weights in the controller's Q. With predict they also weigh scales and
  /// validation, and rows of weight 0 are ignored.
  std::string sample_weights;
  /// Classes, with predict: "balanced", or NAME=WEIGHT for each class, by default 1. They multiply
  /// the sample weights.
  std::vector<std::string> class_weights;
  /// One per target, or per class of pictures, in the controller's Q; empty: all 1.
  std::vector<double> output_weights;

  /// Sets what the loss requires of targets.
  void learn_by(const loss::Loss& loss);
};

/// Defaults for the goal predict. kRareRows: smaller categories cannot be told from noise.
/// kSelectionShare: the share of rows that train in the selection if there is one network.
inline constexpr double kSelectionShare = 0.8;
inline constexpr int64_t kUsualQuantiles = 13;
inline constexpr double kUsualClip = 3;
inline constexpr int64_t kUsualLevels = 64;
inline constexpr int64_t kRareRows = 5;

/// Options of encoding and scaling, with the goal's defaults. With predict also dates, missing
/// indicators, rare categories, and the selection of columns.
data::PreprocessOptions preprocess_options(const DataOptions& options);
/// The rows for fitting scales, the training share, and the treatment of missing targets, likewise.
Fit fit_of(const DataOptions& options);
double train_fraction_of(const DataOptions& options);
MissingTarget missing_target_of(const DataOptions& options);

/// A network between features and targets; the data determine its `input_shape` and `outputs`.
/// `hidden` is for mlp; other architectures have their own, or none.
struct NetworkOptions : nn::NetworkOptions {
  NetworkOptions() { hidden = {256, 256}; }
  /// Selects another architecture with its default layers.
  void choose(const std::string& name);
  torch::ScalarType dtype = torch::kFloat32;
};

/// Default architecture for pictures.
inline constexpr const char* kUsualPictureNetwork = "cnn";

/// "float32" or "float64", the dtypes of networks.
/// @throws InvalidArgument on another name.
torch::ScalarType parse_dtype(std::string_view name);
std::string dtype_name(torch::ScalarType dtype);

}  // namespace cdt::study
