/// How much rows, classes and outputs of a problem count.
#pragma once

#include <cdt/core/error.h>
#include <cdt/study/problem.h>

namespace cdt::study {

/// Of these rows: above zero, or with `may_be_zero` not below it.
/// @throws InvalidArgument that names the line of another.
std::vector<double> read_weights(const data::Table& table, const std::string& name,
                                 const std::vector<int64_t>& rows, bool may_be_zero = false);

/// Gives the problem's samples and outputs the weights that the options ask for.
void weigh(const data::Table& table, const DataOptions& options, Problem& problem);

}  // namespace cdt::study
