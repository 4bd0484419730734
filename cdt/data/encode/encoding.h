/// Encodes columns as features: numbers, categories and dates; part of the preprocessing.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/preprocess.h>

namespace cdt::data {

/// Maximum number of one-hot features of a column: with more it is an identifier, and they would
/// not fit in memory.
inline constexpr size_t kMostOneHot = 10000;

/// Rows to fit on, ascending, with their positive weights.
struct FitRows {
  std::vector<int64_t> rows;
  std::vector<double> weights;
};

/// Number of features of the column, one per scale, and their names.
size_t width_of(const FeatureColumn& feature, Encoding encoding);

std::vector<std::string> names_of(const FeatureColumn& feature, Encoding encoding);

/// Writes the column's features, scaled, clipped and weighted, to out[row · stride + k].
/// @throws InvalidArgument as Preprocess::transform.
void encode(const Preprocess& preprocess, const FeatureColumn& feature, const Table& table,
            const std::vector<int64_t>& rows, double* out, size_t stride);

/// Scaled pictures of these rows.
/// @throws InvalidArgument as Preprocess::transform.
torch::Tensor transform_pictures(const PictureFeatures& features, const Table& table,
                                 const std::vector<int64_t>& rows);

/// Unknown texts of the column.
UnknownTexts unknown_texts_of(const FeatureColumn& feature, const Table& table);

/// Missing values of a column that had none in the rows fitted on.
UnknownTexts newly_missing(const FeatureColumn& feature, const Table& table);

/// Marks rows whose value in the column affects no feature.
void mark_unfamiliar(const FeatureColumn& feature, const Table& table,
                     const std::vector<int64_t>& rows, std::vector<bool>& marked);

/// Adds a column of the table to a preprocessing: one feature column, several for a date, or none
/// if it is left out. Notes describe the choices.
void fit_column(const Table& table, const Column& column, const FitRows& fit,
                const PreprocessOptions& options, Preprocess& preprocess);

/// @throws InvalidArgument if the range of the values exceeds float64.
Scale fit_scale(const std::vector<double>& values, const std::vector<double>& weights,
                Scaling scaling, const std::string& name);

}  // namespace cdt::data
