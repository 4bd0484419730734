/// A table and a network in numbers and names: what a study starts from.
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

/// What a model is for: to fit the rows that train, or to predict others. Choices of encoding that
/// nobody has made follow from it.
enum class Goal { kFit, kPredict };
/// "fit" or "predict".
/// @throws InvalidArgument on another name.
Goal parse_goal(std::string_view name);
std::string to_string(Goal goal);

/// The rows on which scales are fitted: those that train, those that train and validate (all but
/// the test rows), or the whole table.
enum class Fit { kTrain, kSeen, kAll };
/// "train", "seen" or "all".
/// @throws InvalidArgument on another name.
Fit parse_fit(std::string_view name);
std::string to_string(Fit fit);

/// A row without a target: left out, or refused.
enum class MissingTarget { kDrop, kError };
/// "drop" or "error".
/// @throws InvalidArgument on another name.
MissingTarget parse_missing_target(std::string_view name);
std::string to_string(MissingTarget missing);

/// A file and how its rows become samples. The goal chooses what is optional and not there:
/// `preprocess_options` and the functions below it. Without `targets` all labels of arrays are.
struct DataOptions : data::Source {
  /// Whether the file holds pictures (holds_pictures). `csv` and columns mean nothing then; the
  /// target is the class, and without `classes` its 1 and 0 are fitted as numbers.
  bool is_pictures = false;
  std::vector<std::string> targets;  ///< columns to learn
  /// What it is for. None: as run::train and `cdt train` find usual, predict of a table and fit of
  /// pictures; whoever takes samples alone fits.
  std::optional<Goal> goal;
  bool classes = false;  ///< whether the target, then a single one, is a class
  /// As loss::Traits has them.
  bool keeps_units = false;
  double least_target = -std::numeric_limits<double>::infinity();
  std::optional<MissingTarget> missing_target;  ///< error; predict drop
  int64_t rows = 0;                             ///< to draw without replacement; 0 takes all
  /// Of them, the others validate: 0.7. Of predict all: rows to learn from, where they are told;
  /// the others are test rows.
  std::optional<double> train_fraction;
  int64_t train_rows = 0;    ///< instead of the share; 0: by the share
  double test_fraction = 0;  ///< of the rows, that nobody sees until the end; drawn first
  /// Rows that are equal in every feature stay on one side, whatever their targets. (The paper's
  /// experiments draw rows as they come.)
  bool equal_rows_together = true;
  std::string group;  ///< a column: rows that are equal in it stay on one side
  std::string time;   ///< a column, numbers or dates: the latest rows validate and test
  std::optional<data::Encoding> encoding;                 ///< index; predict onehot
  std::optional<data::MissingNumber> missing_number;      ///< zero; predict median
  std::optional<data::UnknownCategory> unknown_category;  ///< error; predict missing
  std::optional<data::Scaling> scaling;                   ///< minmax; predict and pictures standard
  std::optional<data::Scaling> target_scaling;            ///< likewise; none for classes
  std::optional<data::TargetTransform> target_transform;  ///< none; predict auto
  std::optional<int64_t> quantiles;   ///< knots of a number's pieces: 0; predict kUsualQuantiles
  double quantile_weight = 0;         ///< of the pieces; 0: 1/√(their number)
  std::optional<double> clip;         ///< bound of scaled features: 0; predict kUsualClip
  std::optional<int64_t> max_levels;  ///< one-hot categories: all; predict kUsualLevels
  std::vector<std::string> keep;      ///< predict: features even if they look like identifiers
  std::optional<Fit> fit;             ///< train; predict seen. Of pictures, all are those drawn
  /// A column of positive weights in the controller's Q. Under predict they weigh scales and
  /// validation too, and 0 is as no row.
  std::string sample_weights;
  /// Under predict, of classes: "balanced", or NAME=WEIGHT each, others having 1. They multiply the
  /// weights of the samples.
  std::vector<std::string> class_weights;
  /// One per target, or class of pictures, in the controller's Q; empty: all 1.
  std::vector<double> output_weights;

  /// Takes targets as this loss wants them.
  void learn_by(const loss::Loss& loss);
};

/// Choices for the goal predict. A category of fewer rows than kRareRows is not told from noise.
/// Of rows to learn from, those that train while the others choose the point, where one network
/// does.
inline constexpr double kSelectionShare = 0.8;
inline constexpr int64_t kUsualQuantiles = 13;
inline constexpr double kUsualClip = 3;
inline constexpr int64_t kUsualLevels = 64;
inline constexpr int64_t kRareRows = 5;

/// What the options say of encoding and scaling, and the goal where they say nothing. Under predict
/// also dates, indicators of missing numbers, rare categories, and the choice of columns.
data::PreprocessOptions preprocess_options(const DataOptions& options);
/// The rows to fit on, the share that trains, and what a row without a target is, likewise.
Fit fit_of(const DataOptions& options);
double train_fraction_of(const DataOptions& options);
MissingTarget missing_target_of(const DataOptions& options);

/// A network between the features and the targets: the data say its `input_shape` and `outputs`.
/// `hidden` is that of an mlp; other architectures want their own, or none.
struct NetworkOptions : nn::NetworkOptions {
  NetworkOptions() { hidden = {256, 256}; }
  /// Another architecture, with its own layers.
  void choose(const std::string& name);
  torch::ScalarType dtype = torch::kFloat32;
};

/// What pictures are learned by where nobody has chosen.
inline constexpr const char* kUsualPictureNetwork = "cnn";

/// "float32" or "float64", the precisions of networks.
/// @throws InvalidArgument on another name.
torch::ScalarType parse_dtype(std::string_view name);
std::string dtype_name(torch::ScalarType dtype);

}  // namespace cdt::study
