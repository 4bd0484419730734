/// A table and a network in numbers and names: what a study starts from.
#pragma once

#include <cdt/data/preprocess.h>
#include <cdt/nn/architectures.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cdt::study {

/// The rows on which scales are fitted: those that train, or the whole table.
enum class Fit { kTrain, kAll };
/// "train" or "all".
/// @throws InvalidArgument on another name.
Fit parse_fit(std::string_view name);
std::string to_string(Fit fit);

/// A CSV file and how it becomes samples.
struct DataOptions {
  std::string file;
  data::CsvOptions csv;              ///< how to read it
  std::vector<std::string> targets;  ///< columns to learn
  bool classes = false;              ///< whether the target, then a single one, is a class
  int64_t rows = 0;                  ///< to draw without replacement; 0 takes all
  double train_fraction = 0.7;       ///< of them; the others validate
  int64_t train_rows = 0;            ///< instead of the share; 0: by the share
  data::Encoding encoding = data::Encoding::kIndex;
  data::MissingNumber missing_number = data::MissingNumber::kZero;
  data::UnknownCategory unknown_category = data::UnknownCategory::kError;
  data::Scaling scaling = data::Scaling::kMinMax;
  std::optional<data::Scaling> target_scaling;  ///< default: minmax; none for classes
  Fit fit = Fit::kTrain;
  std::string sample_weights;          ///< a column of positive weights in the controller's Q
  std::vector<double> output_weights;  ///< one per target in the controller's Q; empty: all 1
};

/// A network between the features and the targets: the data say its `input_shape` and `outputs`.
struct NetworkOptions : nn::NetworkOptions {
  NetworkOptions() { hidden = {256, 256}; }
  torch::ScalarType dtype = torch::kFloat32;
};

/// "float32" or "float64", the precisions of networks.
/// @throws InvalidArgument on another name.
torch::ScalarType parse_dtype(std::string_view name);
std::string dtype_name(torch::ScalarType dtype);

}  // namespace cdt::study
