/// The pre-flight analysis in words, and as JSON with stable names (DESIGN section 5).
#pragma once

#include <cdt/analysis/preflight.h>

#include <string>

namespace cdt::analysis {

/// A page of text: the verdicts first, then what they mean and what to do.
std::string to_text(const Preflight& preflight);

/// One JSON object. Infinite numbers are null; so is what could not be known (`stabilizable`
/// without labels and outputs).
std::string to_json(const Preflight& preflight);

}  // namespace cdt::analysis
