/// Weights of rows, classes and outputs of a problem.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/problem.h>

namespace cdt::study {

/// Weights of these rows: positive, or with `may_be_zero` non-negative.
/// @throws InvalidArgument that names the line of any other.
std::vector<double> read_weights(const data::Table& table, const std::string& name,
                                 const std::vector<int64_t>& rows, bool may_be_zero = false);

/// Sets the weights of samples and outputs requested by the options.
void weigh(const data::Table& table, const DataOptions& options, Problem& problem);

}  // namespace cdt::study
