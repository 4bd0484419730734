/// Columns as features: numbers, categories and dates; part of the preprocessing.
#pragma once

#include <cdt/core/error.h>
#include <cdt/data/preprocess.h>

namespace cdt::data {

/// Of one column of one-hot features: beyond this it is an identifier, and they would not fit in
/// memory.
inline constexpr size_t kMostOneHot = 10000;

/// Rows to fit on, ascending, and their weights above zero.
struct FitRows {
  std::vector<int64_t> rows;
  std::vector<double> weights;
};

/// Features of the column: as many as it has scales.
size_t width_of(const FeatureColumn& feature, Encoding encoding);

std::vector<std::string> names_of(const FeatureColumn& feature, Encoding encoding);

/// The column's features, scaled, clipped and weighted, written to out[row · stride + k].
/// @throws InvalidArgument as Preprocess::transform.
void encode(const Preprocess& preprocess, const FeatureColumn& feature, const Table& table,
            const std::vector<int64_t>& rows, double* out, size_t stride);

/// Pictures of these rows, scaled.
/// @throws InvalidArgument as Preprocess::transform.
torch::Tensor transform_pictures(const PictureFeatures& features, const Table& table,
                                 const std::vector<int64_t>& rows);

/// Texts of the column that it does not know.
UnknownTexts unknown_texts_of(const FeatureColumn& feature, const Table& table);

/// Missing values of a column that had one in each row fitted on.
UnknownTexts newly_missing(const FeatureColumn& feature, const Table& table);

/// Marks the rows of which no feature of the column says what stands there.
void mark_unfamiliar(const FeatureColumn& feature, const Table& table,
                     const std::vector<int64_t>& rows, std::vector<bool>& marked);

/// Adds a column of the table to a preprocessing: one feature column, several of a date, or none if
/// it is left out; and says in its notes what was chosen.
void fit_column(const Table& table, const Column& column, const FitRows& fit,
                const PreprocessOptions& options, Preprocess& preprocess);

/// @throws InvalidArgument if all values are not within what float64 can hold.
Scale fit_scale(const std::vector<double>& values, const std::vector<double>& weights,
                Scaling scaling, const std::string& name);

}  // namespace cdt::data
