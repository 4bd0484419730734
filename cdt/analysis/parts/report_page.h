/// The parts of the pre-flight page while it is being written; for the sources of reports alone.
#pragma once

#include <cdt/analysis/preflight.h>

#include <string>
#include <string_view>
#include <vector>

namespace cdt::analysis {

/// Verdict, meaning and advice, gathered section by section; then other rates, then the numbers.
struct Page {
  std::string verdicts;
  std::vector<std::string> meaning;
  std::vector<std::string> advice;
  std::string rates;
  std::string numbers;

  void verdict(std::string_view subject, std::string_view word, const std::string& detail);
};

/// What labels can do, and for which samples they cannot (text_reach.cpp).
void describe_reach(const Preflight& preflight, Page& page);
/// The outputs before training, and what training will bring (text_outlook.cpp).
void describe_outlook(const Preflight& preflight, Page& page);

inline bool has_classes(const Preflight& p) { return p.curvature && p.curvature->smoothing; }

}  // namespace cdt::analysis
