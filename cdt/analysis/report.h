/// The pre-flight analysis in words, and as JSON with stable names (docs/formats.md).
#pragma once

#include <cdt/analysis/preflight.h>

#include <string>
#include <vector>

namespace cdt::analysis {

/// Where the samples stand in a file, so that the page can name lines as well.
struct SampleOrigin {
  std::string source;
  std::vector<int64_t> lines;  ///< [samples], from 1; empty: not known
};

/// A page of text: the verdicts first, then what they mean and what to do.
/// Two lines on a controller; empty without one.
std::string to_text(const control::Certificate& controller);
std::string to_text(const Preflight& preflight, const SampleOrigin& origin = {});

/// One JSON object. Infinite numbers are null; so is what could not be known (`stabilizable`
/// without labels and outputs).
std::string to_json(const Preflight& preflight);

}  // namespace cdt::analysis
