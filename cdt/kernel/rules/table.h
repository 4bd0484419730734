/// Files of rules. A new one is declared here and listed in table.cpp.
#pragma once

#include <cdt/kernel/rules/rule.h>

namespace cdt::kernel::rules {

std::vector<Rule> operands();     ///< transpositions, constant factors, parts
std::vector<Rule> linear();       ///< h = A·W + b
std::vector<Rule> convolution();  ///< h = W ⋆ x + b, transposed ones too
std::vector<Rule> embedding();    ///< h = rows of W by indices
std::vector<Rule> norm();      ///< h = γ ∘ x̂ + β: batch, instance, group, layer and RMS norm
std::vector<Rule> addition();  ///< h = … ± b
std::vector<Rule> scale();     ///< h = x ∘ γ
std::vector<Rule> training_mode();  ///< layers that mix samples or are random

/// The site of an operator without a rule, if it takes parameters and processes samples
/// independently.
std::unique_ptr<Site> any_operator(const Call& call);

}  // namespace cdt::kernel::rules
