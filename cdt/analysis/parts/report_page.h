/// The parts of the pre-flight page while it is being written; for the sources of reports alone.
#pragma once

#include <cdt/analysis/preflight.h>

#include <nlohmann/json.hpp>
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

void describe_findings(const Preflight& preflight, Page& page);
void add_findings(const Preflight& preflight, nlohmann::ordered_json& json);

}  // namespace cdt::analysis
